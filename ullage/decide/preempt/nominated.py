"""Nominated pods: a node is being made free for them, and others must not slip in before they are there.

For whoever is asked about, nominated pods of the same or higher priority count as placed; lower ones do not.
"""

from collections.abc import Collection, Iterable

from ullage.decide.fit.codes import Codes
from ullage.decide.seat.deciding import Refusal, Seat, Seating, hold
from ullage.model.pod import Pod


def place_nominated(seating: Seating, pod: Pod, nominated: Iterable[Pod], *, now: float) -> bool:
    """Put those on their nodes who count for this pod; to be called in a what-if. Whether there were any."""
    placements = seating.placements
    ahead = [
        other
        for other in nominated
        if other.priority >= pod.priority
        and other.key != pod.key
        and other.key not in placements.pods
        and other.nominated in placements.columns.rows
    ]
    for other in sorted(ahead, key=lambda other: (-other.priority, other.created, other.key)):
        seat = _seat_to_be(seating, other, now)
        if seat is None:
            placements.place(other, other.nominated)  # its devices are not known, its number counts
        else:
            hold(placements, other, seat)
    return bool(ahead)


def seat_beside_nominated(
    seating: Seating, pod: Pod, nominated: Collection[Pod], *, now: float, closed: Codes | None = None
) -> Seat | Refusal:
    """The best seat that takes nothing from nominated pods; for a pod that is nominated itself, its own node first.

    As in kube-scheduler the seat must do with and without them: they may never come.
    """
    if not nominated and not pod.nominated:
        return seating.seat(pod, now=now, closed=closed)
    with seating.placements.what_if():
        any_ahead = place_nominated(seating, pod, nominated, now=now)
        answer = _own_node(seating, pod, now, closed) or seating.seat(pod, now=now, closed=closed)
    if not any_ahead or isinstance(answer, Refusal):
        return answer
    alone = seating.seat_on(pod, answer.node, now=now)
    return answer if isinstance(alone, Seat) else Refusal(1, {alone: 1})


def _own_node(seating: Seating, pod: Pod, now: float, closed: Codes | None) -> Seat | None:
    row = seating.placements.columns.rows.get(pod.nominated)
    if row is None or (closed is not None and closed[row]):
        return None
    seat = seating.seat_on(pod, pod.nominated, now=now)
    return seat if isinstance(seat, Seat) else None


def _seat_to_be(seating: Seating, pod: Pod, now: float) -> Seat | None:
    """Its seat now, or once those have left who are leaving; or those who could be made to, if none is seen to yet."""
    with seating.placements.what_if():
        for gone in (_nobody, _leaving, _lower):
            for other in list(seating.placements.pods_on(pod.nominated).values()):
                if gone(other, pod):
                    seating.placements.remove(other.key)
            seat = seating.seat_on(pod, pod.nominated, now=now)
            if isinstance(seat, Seat):
                return seat
    return None


def _nobody(_other: Pod, _pod: Pod) -> bool:
    return False


def _leaving(other: Pod, _pod: Pod) -> bool:
    return other.deleting


def _lower(other: Pod, pod: Pod) -> bool:
    return other.priority < pod.priority
