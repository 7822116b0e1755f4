"""Everything that is counted while pods come and go, counted again from nothing. Each difference is a sentence."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ullage.model.event import Appeared, ObjectKey
from ullage.state.cluster import ClusterState
from ullage.state.placements import Placements
from ullage.state.tally import Carriers, RowCounts

_GPU_ARRAYS = ("free", "held", "exists", "healthy", "island", "bandwidth", "memory", "reported_at", "kind")


def drifted(placements: Placements) -> Iterator[str]:
    """Every difference there is; nothing for placements that are sound."""
    fresh = recounted(placements)
    for name in sorted(placements.state.nodes.keys() | placements.columns.rows.keys()):
        if name not in placements.columns.rows:
            yield f"{name}: has no row"
        elif name not in placements.state.nodes:
            yield f"{name}: has a row and is no node"
        else:
            yield from _differences(name, row_facts(placements, name), row_facts(fresh, name))
    yield from _differences("all nodes", shared_facts(placements), shared_facts(fresh))
    for filters, counts in placements.tallies.known():
        again = fresh.counts(filters)
        if _by_name(counts, placements) != _by_name(again, fresh):
            yield f"{filters}: remembers {_by_name(counts, placements)}, there are {_by_name(again, fresh)}"


def recounted(placements: Placements) -> Placements:
    """The same nodes and the same pods on them, put there one by one."""
    state = ClusterState()
    for node in placements.state.nodes.values():
        state.apply(Appeared(ObjectKey("", node.name), node))
    for inventory in placements.state.inventories.values():
        state.apply(Appeared(ObjectKey("", inventory.node), inventory))
    for namespace in placements.state.namespaces.values():
        state.apply(Appeared(ObjectKey("", namespace.name), namespace))
    fresh = Placements(state)
    for pod in placements.pods.values():
        fresh.place(pod, pod.node, pod.gpu_ids, pod.gpu_share)
    return fresh


def row_facts(placements: Placements, name: str) -> dict[str, Any]:
    """All that the columns say of one node, by name and not by number."""
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


def shared_facts(placements: Placements) -> dict[str, Any]:
    """What is kept beside the columns."""
    names = placements.columns.names
    claims = {use.claim for pod in placements.pods.values() for use in pod.shape.claims}
    return {
        "rows in order": [names[row] for row in placements.columns.by_name],
        "ports": {(port, names[row]): count for port, row, count in placements.ports.users()},
        "claims": {claim: sorted(placements.claim_users(claim)) for claim in claims},
        "refusals": _carried(placements.refusals, placements),
        "wishes": _carried(placements.wishes, placements),
    }


def _carried(carriers: Carriers, placements: Placements) -> dict[Any, dict[str, int]]:
    return {(term, weight): _by_name(counts, placements) for term, weight, counts in carriers.known()}


def _by_name(counts: RowCounts, placements: Placements) -> dict[str, int]:
    return {placements.columns.names[row]: int(counts.per_row[row]) for row in np.flatnonzero(counts.per_row)}


def _differences(subject: str, remembered: dict[str, Any], counted: dict[str, Any]) -> Iterator[str]:
    for fact in sorted(remembered.keys() | counted.keys()):
        if remembered.get(fact) != counted.get(fact):
            yield f"{subject}: remembers {fact} as {remembered.get(fact)}, counted again it is {counted.get(fact)}"
