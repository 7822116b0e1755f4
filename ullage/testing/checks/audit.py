"""Audit of the snapshot: every incremental count, counted again from nothing. Each difference is a sentence."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ullage.model.fact_event import Added, ObjectKey
from ullage.model.units import Instant
from ullage.state.cluster import ClusterState
from ullage.state.dump import dump
from ullage.state.pod_counts import AffinityIndex, RowCounts
from ullage.state.snapshot import ClusterSnapshot

_GPU_ARRAYS = ("free", "held", "pieces", "exists", "healthy", "island", "bandwidth", "memory", "reported_at", "kind")


def drifted(snapshot: ClusterSnapshot) -> Iterator[str]:
    """Every difference there is; nothing for placements that are sound."""
    fresh = recounted(snapshot)
    for name in sorted(snapshot.state.nodes.keys() | snapshot.columns.rows.keys()):
        if name not in snapshot.columns.rows:
            yield f"{name}: has no row"
        elif name not in snapshot.state.nodes:
            yield f"{name}: has a row and is no node"
        else:
            yield from _differences(name, row_facts(snapshot, name), row_facts(fresh, name))
    yield from _intentions(snapshot)
    yield from _differences("all nodes", shared_facts(snapshot), shared_facts(fresh))
    for filters, counts in snapshot.placed.tallies.known():
        again = fresh.counts(filters)
        if _by_name(counts, snapshot) != _by_name(again, fresh):
            yield f"{filters}: remembers {_by_name(counts, snapshot)}, there are {_by_name(again, fresh)}"


def _intentions(snapshot: ClusterSnapshot) -> Iterator[str]:
    """Namespaces of which it is not known rightly whether room is held for pods that are not bound."""
    heard, holding = snapshot.state.pods, snapshot.pods
    intended = {key.namespace for key in holding if key not in heard or not heard[key].holds_room}
    for namespace in sorted({key.namespace for key in holding} | {key.namespace for key in heard}):
        if snapshot.has_intentions(namespace) != (namespace in intended):
            yield f"namespace {namespace}: remembers intentions wrongly"


def recounted(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Snapshot with the same nodes and the same pods on them, placed one by one."""
    state = ClusterState()
    for node in snapshot.state.nodes.values():
        state.apply(Added(ObjectKey("", node.name), node))
    for inventory in snapshot.state.inventories.values():
        state.apply(Added(ObjectKey("", inventory.node), inventory))
    for namespace in snapshot.state.namespaces.values():
        state.apply(Added(ObjectKey("", namespace.name), namespace))
    fresh = ClusterSnapshot(state)
    for pod in snapshot.pods.values():
        fresh.assume(pod, pod.node, pod.gpu_ids, pod.gpu_share, snapshot.storage.of(pod.key))
    return fresh


def everything(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """All that the snapshot holds, with names instead of rows. Equal before and after a question.

    Counts by filter are left out: a question may be the first to need one. `drifted` checks them.
    """
    heard = snapshot.state
    pods = {key: (pod, snapshot.storage.of(key)) for key, pod in snapshot.pods.items()}
    return {
        "facts": dump(heard, now=Instant(0.0)),
        "indices": (dict(heard.tainted_nodes), {name: dict(heard.nodes_of_pool(name)) for name in heard.pools}),
        "rows": {name: row_facts(snapshot, name) for name in snapshot.columns.rows},
        "pods": pods,
        "pods by node": {name: dict(snapshot.pods_on(name)) for name in sorted({pod.node for pod, _ in pods.values()})},
        "left by pods": snapshot.leases.left,
        "vms": {name: snapshot.vms.ledger.ledger(name) for name in snapshot.vms.ledger.nodes()},
    } | shared_facts(snapshot)


def row_facts(snapshot: ClusterSnapshot, name: str) -> dict[str, Any]:
    """Values of all columns for one node, with names instead of numbers."""
    columns = snapshot.columns
    row, gpus = columns.rows[name], columns.gpus
    models = {index: model for model, index in gpus.models.items()}
    facts: dict[str, Any] = {attribute: getattr(gpus, attribute)[row].tolist() for attribute in _GPU_ARRAYS}
    for resource, index in columns.resources.items():
        facts |= {f"{resource} offered": columns.allocatable[index, row].item()}
        facts |= {f"{resource} used": columns.used[index, row].item()}
        facts |= {f"{resource} free": columns.free[index, row].item()}
    facts = {fact: value for fact, value in facts.items() if np.any(value)}  # nothing used, or never heard of: the same
    return facts | {
        "models": [models.get(index) for index in gpus.model[row].tolist()],
        "pods": columns.pods[row].item(),
        "slots": columns.most_pods[row].item(),
        "scored": (columns.scored_cpu[row].item(), columns.scored_memory[row].item()),
        "alive": columns.alive[row].item(),
        "condition": columns.known_conditions.value(columns.conditions[row].item()),
    }


def shared_facts(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """Facts the snapshot keeps beside the columns."""
    names = snapshot.columns.names
    claims = {use.claim for pod in snapshot.pods.values() for use in pod.shape.claims}
    return {
        "rows in order": [names[row] for row in snapshot.columns.by_name],
        "ports": {(port, names[row]): count for port, row, count in snapshot.placed.ports.users()},
        "claims": {claim: sorted(snapshot.claim_users(claim)) for claim in claims},
        "refusals": _carried(snapshot.placed.refusals, snapshot),
        "wishes": _carried(snapshot.placed.preferences, snapshot),
    }


def _carried(carriers: AffinityIndex, snapshot: ClusterSnapshot) -> dict[Any, dict[str, int]]:
    return {(term, weight): _by_name(counts, snapshot) for term, weight, counts in carriers.known()}


def _by_name(counts: RowCounts, snapshot: ClusterSnapshot) -> dict[str, int]:
    return {snapshot.columns.names[row]: int(counts.per_row[row]) for row in np.flatnonzero(counts.per_row)}


def _differences(subject: str, remembered: dict[str, Any], counted: dict[str, Any]) -> Iterator[str]:
    for fact in sorted(remembered.keys() | counted.keys()):
        if remembered.get(fact) != counted.get(fact):
            yield f"{subject}: remembers {fact} as {remembered.get(fact)}, counted again it is {counted.get(fact)}"
