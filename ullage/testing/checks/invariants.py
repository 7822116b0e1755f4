"""Invariants of a cluster state. Each breach is a sentence."""

from collections.abc import Iterator

from ullage.model.fact_event import ObjectKey
from ullage.model.resources import total
from ullage.state.cluster import ClusterState


def broken(state: ClusterState) -> Iterator[str]:
    """Yield every breach; nothing for a sound state."""
    yield from _sums_that_drifted(state)
    yield from _promised_twice(state)


def _sums_that_drifted(state: ClusterState) -> Iterator[str]:
    """A bug of ours: the running sums differ from what the facts add up to."""
    homes: dict[str, list[ObjectKey]] = {}
    for key in sorted(state.pods):
        if state.pods[key].holds_room:
            homes.setdefault(state.pods[key].node, []).append(key)
    for node in sorted(homes.keys() | state.nodes.keys()):
        keys = homes.get(node, [])
        if sorted(state.pods_on(node)) != keys:
            yield f"{node}: remembers {len(state.pods_on(node))} pods and has {len(keys)}"
        summed = total(state.pods[key].requests for key in keys)
        if dict(state.used_on(node)) != {name: amount for name, amount in summed.items() if amount}:
            yield f"{node}: remembers {dict(state.used_on(node))} used, its pods add up to {summed}"


def _promised_twice(state: ClusterState) -> Iterator[str]:
    """Nodes with more placed on them than they have: by this scheduler, by another one, or by a node that shrank."""
    for node in sorted(state.nodes):
        for resource, left in sorted(state.free_on(node).items()):
            if left < 0:
                yield f"{node}: {-left} thousandths of {resource} are promised twice"
