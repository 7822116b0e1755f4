"""Which nodes are worth a try, and in which order: judged by sums alone, before anything is taken away and put back.

Each candidate says how good a clearing of it could be at best. Who looks at them in this order may stop as soon as
what was found is as good as what the next one promises, and has missed nothing.
"""

from dataclasses import dataclass
from itertools import accumulate, repeat

import numpy as np

from ullage.decide.devices.freeing import Holding, would_get
from ullage.decide.fit.codes import FITS, REASONS
from ullage.decide.preempt.clearing import NOBODY, Rank, priced
from ullage.decide.preempt.protection import Protection
from ullage.decide.seat.deciding import Seating, device_ask
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.verdict import CURES, Verdict
from ullage.state.gpus import Kind

CURABLE = tuple(code for code, reason in enumerate(REASONS) if reason in CURES and CURES[reason].fewer_pods)
"""Codes of refusals that fewer pods could change."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may be cleared."""

    promise: Rank
    """No clearing of this node ranks before this."""
    node: str


def candidates(seating: Seating, protection: Protection, pod: Pod, *, now: float) -> list[Candidate]:
    """Nodes where evicting all of lower priority would leave enough of each resource, the most promising first."""
    placements = seating.placements
    columns = placements.columns
    curable = np.isin(seating.codes(pod, now=now), CURABLE)
    rows = np.flatnonzero(curable if protection.closed is None else curable & (protection.closed == FITS))
    needs = columns.indexed(pod.shape.requests)
    missing = np.array(
        [amount - columns.allocatable[index, rows] + columns.used[index, rows] for index, amount in needs]
    )
    sums = _Sums([name for name, _ in pod.shape.requests])
    found: list[Candidate] = []
    for row, short in zip(rows.tolist(), missing.T.tolist() if needs else repeat([]), strict=False):
        node = columns.names[row]
        leaving, evictable = protection.who_goes(node)
        if leaving or evictable:
            promise = sums.promise(short, leaving, evictable)
            if promise is not None:
                found.append(Candidate((*promise, node), node))
    return sorted(found, key=lambda candidate: candidate.promise)


def could_get_devices(seating: Seating, protection: Protection, pod: Pod, node: str) -> bool:
    """Whether the GPUs of a node would do if all who may go let go of theirs. Counted nodes are not asked."""
    placements, ask = seating.placements, device_ask(pod)
    row = placements.columns.rows[node]
    board = seating.boards.of(row)
    if ask is None or board is None or placements.columns.gpus.kind[row] != Kind.LEASED:
        return True
    leaving, evictable = protection.who_goes(node)
    held = (Holding(one.gpu_ids, one.gpu_share, one.gpu_instances) for one in (*leaving, *evictable) if one.gpu_ids)
    return not isinstance(would_get(board, ask, held), Verdict)


class _Sums:
    """What nodes promise, told from the amounts of some resources alone.

    What no sum shows (ports, islands) may need more victims, never fewer or lower ones.
    """

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._of_shape: dict[Shape, tuple[int, ...]] = {}

    def promise(self, short: list[int], leaving: list[Pod], evictable: list[Pod]) -> tuple[int, int, int, float] | None:
        """The best that could become of a node that is short of this much; None if all together do not free enough."""
        for pod in leaving:
            short = [missing - freed for missing, freed in zip(short, self._freed(pod), strict=True)]
        if leaving and not any(missing > 0 for missing in short):
            return NOBODY[:4]
        if not evictable:
            return None
        freed = [self._freed(pod) for pod in evictable]
        last = fewest = 0
        for place, missing in enumerate(short):
            amounts = [amount[place] for amount in freed]
            if missing > 0:
                if sum(amounts) < missing:
                    return None
                last = max(last, _reaching(missing, amounts))
                fewest = max(fewest, _reaching(missing, sorted(amounts, reverse=True)))
        floor, lowest = evictable[last].priority, evictable[0].priority
        latest = max([pod.created for pod in evictable if pod.priority == floor])
        return floor, priced(floor) + fewest * priced(lowest), fewest + 1, -latest

    def _freed(self, pod: Pod) -> tuple[int, ...]:
        known = self._of_shape.get(pod.shape)
        if known is None:
            requests = dict(pod.shape.requests)
            known = self._of_shape[pod.shape] = tuple(requests.get(name, 0) for name in self._names)
        return known


def _reaching(missing: int, amounts: list[int]) -> int:
    """The place of the one with whom those before it make up what is missing."""
    return next(place for place, total in enumerate(accumulate(amounts)) if total >= missing)
