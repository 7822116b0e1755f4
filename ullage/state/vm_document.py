"""VM ledger as a JSON document: for `GET /state` and `ullage dump`. Sorted, so that equal ledgers are equal texts."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ullage.model.vm import LedgerRow, VmAmounts, VmPod
from ullage.state.vm_room import VmRoom

NONE_UNRELIEVED: Mapping[str, VmAmounts] = {}


def ledger_document(room: VmRoom, unrelieved: Mapping[str, VmAmounts] = NONE_UNRELIEVED) -> dict[str, Any]:
    """The whole ledger: configuration in force, each VM node with its pods, and migrations."""
    ledger = room.ledger
    return {
        "active": room.active,
        "config": msgspec.to_builtins(room.config),
        "configRefused": None if room.refusal is None else str(room.refusal),
        "nodes": [_node(room, name, unrelieved) for name in ledger.nodes() if room.is_vm_node(name)],
        "migrations": [msgspec.to_builtins(one) for one in ledger.migrations()],
    }


def row_document(row: LedgerRow) -> dict[str, int]:
    """One resource of a node, in the words of docs/vms.md."""
    return {
        "total": row.total,
        "system": row.system,
        "watermark": row.watermark,
        "reserved": row.reserved,
        "buffer": row.buffer,
        "capacityPressure": row.capacity_pressure,
        "pressureAccountedFor": row.pressure_accounted_for,
    }


def _node(room: VmRoom, name: str, unrelieved: Mapping[str, VmAmounts]) -> dict[str, Any]:
    ledger = room.ledger.ledger(name)
    return {
        "name": name,
        "cpu": row_document(ledger.cpu),
        "memory": row_document(ledger.memory),
        "ordinary": _amounts(room.ledger.ordinary_on(name)),
        "unrelieved": _amounts(unrelieved.get(name)),
        "pods": [_pod(room, pod) for pod in room.ledger.pods_on(name)],
    }


def _pod(room: VmRoom, pod: VmPod) -> dict[str, Any]:
    account, vm = room.ledger.account(pod.key), room.ledger.vm(pod.vm_key)
    return {
        "namespace": pod.key.namespace,
        "name": pod.key.name,
        "vm": pod.vm,
        "use": _amounts(None if vm is None else vm.use),
        "approved": _amounts(pod.approved),
        "requested": _amounts(pod.requested),
        "unit": _amounts(pod.unit),
        "reserved": _amounts(account.reserved),
        "buffer": _amounts(account.buffer),
        "capacityPressure": _amounts(account.capacity_pressure),
        "known": account.known,
        "migrating": account.migrating,
        "incoming": pod.incoming,
    }


def _amounts(amounts: VmAmounts | None) -> dict[str, int] | None:
    return None if amounts is None else {"cpu": amounts.cpu, "memory": amounts.memory}
