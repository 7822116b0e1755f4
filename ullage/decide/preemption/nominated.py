"""Nominated pods: room is being made for them on a node, and other pods must not take it first.

For the pod being placed, nominated pods of the same or higher priority count as placed; lower ones do not.
"""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from ullage.decide.placement.engine import NoFit, Placement, PlacementEngine, hold
from ullage.decide.placement.filters.codes import CODE, Codes
from ullage.model.claim import Exclusivity
from ullage.model.pod import Pod
from ullage.model.units import Instant
from ullage.model.verdict import Reason


def nominated_ahead(engine: PlacementEngine, pod: Pod, nominated: Iterable[Pod]) -> list[Pod]:
    """Nominated pods that count for this pod, the most important first: they are not placed, and their node exists."""
    snapshot = engine.snapshot
    ahead = [
        other
        for other in nominated
        if other.priority >= pod.priority
        and other.key != pod.key
        and other.key not in snapshot.pods
        and other.nominated in snapshot.columns.rows
    ]
    return sorted(ahead, key=lambda other: (-other.priority, other.created, other.key))


def place_nominated(engine: PlacementEngine, pod: Pod, nominated: Iterable[Pod], *, now: Instant) -> list[int] | None:
    """Place the nominated pods that count for this pod; to be called in a what-if.

    Returns the rows of nodes on which their devices are not known and only their number counts; None if no pod counts.
    """
    snapshot, unsure = engine.snapshot, list[int]()
    ahead = nominated_ahead(engine, pod, nominated)
    for other in ahead:
        placement = placement_to_be(engine, other, now=now)
        if placement is None:
            snapshot.assume(other, other.nominated)
            unsure.append(snapshot.columns.rows[other.nominated])
        else:
            hold(snapshot, other, placement)
    return unsure if ahead else None


def shut(engine: PlacementEngine, pod: Pod, unsure: Sequence[int] | None, closed: Codes | None) -> Codes | None:
    """Closed rows, with those where a pod with a part of a GPU could take what a nominated pod waits for.

    Whole GPUs are counted among the node's resources. Parts are not: on the GPU that was made free first, the pod that
    was evicted from another would be in the way at once, and be evicted for ever.
    """
    ask = pod.shape.devices
    if not unsure or ask is None or ask.exclusivity is Exclusivity.EXCLUSIVE:
        return closed
    codes = np.zeros(engine.snapshot.columns.size, np.uint8) if closed is None else closed.copy()
    codes[list(unsure)] = CODE[Reason.TOO_FEW_GPUS]
    return codes


def place_beside_nominated(
    engine: PlacementEngine, pod: Pod, nominated: Collection[Pod], *, now: Instant, closed: Codes | None = None
) -> Placement | NoFit:
    """Best placement that takes nothing from nominated pods; for a nominated pod, its own node first.

    As in kube-scheduler the placement must fit with and without nominated pods: they may never be bound.
    """
    if not nominated and not pod.nominated:
        return engine.place(pod, now=now, closed=closed)
    with engine.snapshot.what_if():
        unsure = place_nominated(engine, pod, nominated, now=now)
        closed = shut(engine, pod, unsure, closed)
        answer = _own_node(engine, pod, now, closed) or engine.place(pod, now=now, closed=closed)
    if unsure is None or isinstance(answer, NoFit):
        return answer
    alone = engine.place_on(pod, answer.node, now=now)
    return answer if isinstance(alone, Placement) else NoFit(1, {alone: 1})


def _own_node(engine: PlacementEngine, pod: Pod, now: Instant, closed: Codes | None) -> Placement | None:
    row = engine.snapshot.columns.rows.get(pod.nominated)
    if row is None or (closed is not None and closed[row]):
        return None
    placement = engine.place_on(pod, pod.nominated, now=now)
    return placement if isinstance(placement, Placement) else None


def placement_to_be(engine: PlacementEngine, pod: Pod, *, now: Instant) -> Placement | None:
    """Placement of a nominated pod on its node: now, else without leaving pods, else without pods of lower priority."""
    with engine.snapshot.what_if():
        for gone in (_nobody, _leaving, _lower):
            for other in list(engine.snapshot.pods_on(pod.nominated).values()):
                if gone(other, pod):
                    engine.snapshot.forget(other.key)
            placement = engine.place_on(pod, pod.nominated, now=now)
            if isinstance(placement, Placement):
                return placement
    return None


def _nobody(_other: Pod, _pod: Pod) -> bool:
    return False


def _leaving(other: Pod, _pod: Pod) -> bool:
    return other.deleting


def _lower(other: Pod, pod: Pod) -> bool:
    return other.priority < pod.priority
