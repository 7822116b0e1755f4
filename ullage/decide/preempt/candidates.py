"""Which nodes are worth a try, and in which order: judged by sums alone, before anything is taken away and put back."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ullage.decide.devices.freeing import Holding, would_get
from ullage.decide.fit.codes import CODE, REASONS
from ullage.decide.preempt.protection import Protection
from ullage.decide.seat.deciding import Seating, device_ask
from ullage.model.pod import Pod
from ullage.model.verdict import CURES, Verdict
from ullage.state.gpus import Kind

CURABLE = frozenset(CODE[reason] for reason in REASONS if reason in CURES and CURES[reason].fewer_pods)
"""Codes of refusals that fewer pods could change."""

NOBODY = -(2**31)
"""Below every priority: nobody need be evicted."""


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A node that may be cleared. Sorts the most promising first."""

    floor: int
    """No set of victims that is enough has a highest priority below this."""
    node: str


def candidates(seating: Seating, protection: Protection, pod: Pod, *, now: float) -> list[Candidate]:
    """Nodes where evicting everybody of lower priority would leave enough of each resource."""
    placements = seating.placements
    columns = placements.columns
    needs = columns.indexed(pod.shape.requests)
    codes = seating.codes(pod, now=now)
    found: list[Candidate] = []
    for row in range(columns.size):
        if codes.item(row) not in CURABLE:
            continue
        short = {
            index: amount - int(columns.allocatable[index, row] - columns.used[index, row]) for index, amount in needs
        }
        short = {index: amount for index, amount in short.items() if amount > 0}
        node = columns.names[row]
        floor = _floor(short, _leaving_first(placements.pods_on(node).values(), protection), seating)
        if floor is not None:
            found.append(Candidate(floor, node))
    return sorted(found)


def could_get_devices(seating: Seating, protection: Protection, pod: Pod, node: str) -> bool:
    """Whether the GPUs of a node would do if all who may go let go of theirs. Counted nodes are not asked."""
    placements, ask = seating.placements, device_ask(pod)
    row = placements.columns.rows[node]
    board = seating.boards.of(row)
    if ask is None or board is None or placements.columns.gpus.kind[row] != Kind.LEASED:
        return True
    gone = [other for other in placements.pods_on(node).values() if protection.leaves(other) or protection.lower(other)]
    held = (Holding(other.gpu_ids, other.gpu_share, other.gpu_instances) for other in gone if other.gpu_ids)
    return not isinstance(would_get(board, ask, held), Verdict)


def _leaving_first(pods: Iterable[Pod], protection: Protection) -> Iterator[tuple[int, Pod]]:
    """Pods that go or could be made to, with the priority that costs."""
    evictable: list[Pod] = []
    for pod in pods:
        if protection.leaves(pod):
            yield NOBODY, pod
        elif protection.lower(pod):
            evictable.append(pod)
    for pod in sorted(evictable, key=lambda pod: pod.priority):
        yield pod.priority, pod


def _floor(short: dict[int, int], freed: Iterator[tuple[int, Pod]], seating: Seating) -> int | None:
    """The lowest priority up to which all must go before enough of everything is free; None if it never is.

    What no sum shows (ports, islands) may need more, never less.
    """
    columns = seating.placements.columns
    floor: int | None = None
    for priority, pod in freed:
        if floor is not None and not short:
            break
        floor = priority
        for index, amount in columns.indexed(pod.shape.requests) if short else ():
            if index in short:
                short[index] -= amount
                if short[index] <= 0:
                    del short[index]
    return None if short else floor
