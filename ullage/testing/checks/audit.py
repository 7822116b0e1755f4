"""Audit of the snapshot: every incremental count, counted again from nothing. Each difference is a sentence."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ullage.model.fact_event import Added, ObjectKey
from ullage.state.cluster import ClusterState
from ullage.state.dump import dump
from ullage.state.pod_counts import AffinityIndex, RowCounts
from ullage.state.snapshot import ClusterSnapshot

_GPU_ARRAYS = ("free", "held", "pieces", "exists", "healthy", "island", "bandwidth", "memory", "reported_at", "kind")


def drifted(placements: ClusterSnapshot) -> Iterator[str]:
    """Every difference there is; nothing for placements that are sound."""
    fresh = recounted(placements)
    for name in sorted(placements.state.nodes.keys() | placements.columns.rows.keys()):
        if name not in placements.columns.rows:
            yield f"{name}: has no row"
        elif name not in placements.state.nodes:
            yield f"{name}: has a row and is no node"
        else:
            yield from _differences(name, row_facts(placements, name), row_facts(fresh, name))
    yield from _intentions(placements)
    yield from _differences("all nodes", shared_facts(placements), shared_facts(fresh))
    for filters, counts in placements.tallies.known():
        again = fresh.counts(filters)
        if _by_name(counts, placements) != _by_name(again, fresh):
            yield f"{filters}: remembers {_by_name(counts, placements)}, there are {_by_name(again, fresh)}"


def _intentions(placements: ClusterSnapshot) -> Iterator[str]:
    """Namespaces of which it is not known rightly whether room is held for pods that are not bound."""
    heard, holding = placements.state.pods, placements.pods
    intended = {key.namespace for key in holding if key not in heard or not heard[key].holds_room}
    for namespace in sorted({key.namespace for key in holding} | {key.namespace for key in heard}):
        if placements.has_intentions(namespace) != (namespace in intended):
            yield f"namespace {namespace}: remembers intentions wrongly"


def recounted(placements: ClusterSnapshot) -> ClusterSnapshot:
    """Snapshot with the same nodes and the same pods on them, placed one by one."""
    state = ClusterState()
    for node in placements.state.nodes.values():
        state.apply(Added(ObjectKey("", node.name), node))
    for inventory in placements.state.inventories.values():
        state.apply(Added(ObjectKey("", inventory.node), inventory))
    for namespace in placements.state.namespaces.values():
        state.apply(Added(ObjectKey("", namespace.name), namespace))
    fresh = ClusterSnapshot(state)
    for pod in placements.pods.values():
        fresh.place(pod, pod.node, pod.gpu_ids, pod.gpu_share, placements.storage.of(pod.key))
    return fresh


def everything(placements: ClusterSnapshot) -> dict[str, Any]:
    """All that the snapshot holds, with names instead of rows. Equal before and after a question.

    Counts by filter are left out: a question may be the first to need one. `drifted` checks them.
    """
    heard = placements.state
    pods = {key: (pod, placements.storage.of(key)) for key, pod in placements.pods.items()}
    return {
        "facts": dump(heard, now=0.0),
        "indices": (dict(heard.tainted_nodes), {name: dict(heard.nodes_of_pool(name)) for name in heard.pools}),
        "rows": {name: row_facts(placements, name) for name in placements.columns.rows},
        "pods": pods,
        "pods by node": {
            name: dict(placements.pods_on(name)) for name in sorted({pod.node for pod, _ in pods.values()})
        },
        "left by pods": placements.leases.left,
        "vms": {name: placements.vms.ledger.ledger(name) for name in placements.vms.ledger.nodes()},
    } | shared_facts(placements)


def row_facts(placements: ClusterSnapshot, name: str) -> dict[str, Any]:
    """Values of all columns for one node, with names instead of numbers."""
    columns = placements.columns
    row, gpus = columns.rows[name], columns.gpus
    models = {index: model for model, index in gpus.models.items()}
    facts: dict[str, Any] = {attribute: getattr(gpus, attribute)[row].tolist() for attribute in _GPU_ARRAYS}
    for resource, index in columns.resources.items():
        facts |= {f"{resource} offered": columns.allocatable[index, row].item()}
        facts |= {f"{resource} used": columns.used[index, row].item()}
    facts = {fact: value for fact, value in facts.items() if np.any(value)}  # nothing used, or never heard of: the same
    return facts | {
        "models": [models.get(index) for index in gpus.model[row].tolist()],
        "pods": columns.pods[row].item(),
        "slots": columns.most_pods[row].item(),
        "scored": (columns.scored_cpu[row].item(), columns.scored_memory[row].item()),
        "marks": (columns.alive[row].item(), columns.unschedulable[row].item(), columns.unready[row].item()),
        "taints": columns.taint_sets.value(columns.taints[row].item()),
    }


def shared_facts(placements: ClusterSnapshot) -> dict[str, Any]:
    """Facts the snapshot keeps beside the columns."""
    names = placements.columns.names
    claims = {use.claim for pod in placements.pods.values() for use in pod.shape.claims}
    return {
        "rows in order": [names[row] for row in placements.columns.by_name],
        "ports": {(port, names[row]): count for port, row, count in placements.ports.users()},
        "claims": {claim: sorted(placements.claim_users(claim)) for claim in claims},
        "refusals": _carried(placements.refusals, placements),
        "wishes": _carried(placements.wishes, placements),
    }


def _carried(carriers: AffinityIndex, placements: ClusterSnapshot) -> dict[Any, dict[str, int]]:
    return {(term, weight): _by_name(counts, placements) for term, weight, counts in carriers.known()}


def _by_name(counts: RowCounts, placements: ClusterSnapshot) -> dict[str, int]:
    return {placements.columns.names[row]: int(counts.per_row[row]) for row in np.flatnonzero(counts.per_row)}


def _differences(subject: str, remembered: dict[str, Any], counted: dict[str, Any]) -> Iterator[str]:
    for fact in sorted(remembered.keys() | counted.keys()):
        if remembered.get(fact) != counted.get(fact):
            yield f"{subject}: remembers {fact} as {remembered.get(fact)}, counted again it is {counted.get(fact)}"
