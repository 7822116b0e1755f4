"""One node: whom to evict so that the pod gets a seat there.

As kube-scheduler does it: take away everybody who may go; if the pod then fits, put them back one by one, the most
important first, as long as it still fits. Whoever cannot be put back is a victim. The real rules and the real device
choice are asked each time, so victims free the right GPUs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ullage.decide.preempt.plans import plans
from ullage.decide.preempt.protection import Protection, Unit
from ullage.decide.seat.deciding import Seat, Seating
from ullage.model.pod import Pod

_OFFSET = 2**31

Rank = tuple[int, int, int, float, str]
"""Sorts the best first: lowest highest priority, lowest sum of priorities, fewest, shortest there, name."""

NOBODY: Rank = (-_OFFSET, 0, 0, 0.0, "")
"""Before every other: nobody need be evicted."""


def priced(priority: int) -> int:
    """What a victim adds to the sum of priorities: above zero, so that more victims never sum up to less."""
    return priority + _OFFSET


@dataclass(frozen=True, slots=True)
class Clearing:
    """A node on which the pod would get a seat, and who would have to go."""

    node: str
    victims: tuple[Pod, ...]
    """Least important first; none where those in the way are leaving already."""

    @property
    def rank(self) -> Rank:
        if not self.victims:
            return NOBODY
        highest = max(pod.priority for pod in self.victims)
        total = sum(priced(pod.priority) for pod in self.victims)
        earliest = min(pod.created for pod in self.victims if pod.priority == highest)
        return highest, total, len(self.victims), -earliest, self.node


class Clearer:
    """Tries nodes for one pod. Leaves no trace."""

    def __init__(self, seating: Seating, protection: Protection, pod: Pod, *, now: float) -> None:
        self._seating = seating
        self._placements = seating.placements
        self._protection = protection
        self._pod = pod
        self._now = now

    def clear(self, node: str) -> Clearing | None:
        """The victims on this node, or None if evicting all who may go is not enough."""
        with self._placements.what_if():
            for pod in list(self._placements.pods_on(node).values()):
                if self._protection.leaves(pod):
                    self._placements.remove(pod.key)
            if self._fits(node):
                return Clearing(node, ())
            return min(self._ways(node), key=lambda clearing: clearing.rank, default=None)

    def protected(self, node: str) -> bool:
        """Whether there would be room here, were it not for budgets and gangs."""
        with self._placements.what_if():
            for pod in list(self._placements.pods_on(node).values()):
                if self._protection.leaves(pod) or self._protection.lower(pod):
                    self._placements.remove(pod.key)
            return self._fits(node)

    def _ways(self, node: str) -> Iterator[Clearing]:
        """Every way to spend scarce budgets; once with whole gangs, and once with only those gangs can spare."""
        units = self._protection.units_on(node, breaking=True)
        yield from self._clearings(node, units)
        if any(len(unit.pods) > 1 for unit in units):
            yield from self._clearings(node, self._protection.units_on(node, breaking=False))

    def _clearings(self, node: str, units: Sequence[Unit]) -> Iterator[Clearing]:
        for plan in plans(units, self._protection.allows) if units else ():
            victims: tuple[Pod, ...] | None = None
            with self._placements.what_if():
                self._remove(pod for unit in plan for pod in unit.pods)
                if self._fits(node):
                    victims = self._victims(node, plan)
            if victims is not None:
                yield Clearing(node, victims)

    def _victims(self, node: str, plan: Sequence[Unit]) -> tuple[Pod, ...]:
        """Who cannot be put back, of those who were taken away."""
        victims: list[Pod] = []
        for unit in sorted(plan, key=lambda unit: unit.importance):
            victims += self._not_put_back(node, unit)
        return tuple(sorted(victims, key=lambda pod: (pod.priority, -pod.created, pod.key)))

    def _not_put_back(self, node: str, unit: Unit) -> list[Pod]:
        """Those of a unit who must go. As many as it can spare may go alone; if more must, all must."""
        away = [pod for pod in unit.pods if pod.node != node]
        self._put_back(away)
        must_go = [] if self._fits(node) else away
        here = [pod for pod in unit.pods if pod.node == node]
        for pod in sorted(here, key=lambda pod: (-pod.priority, pod.created, pod.key)):
            self._put_back((pod,))
            if not self._fits(node):
                self._remove((pod,))
                must_go.append(pod)
        if len(unit.pods) == 1 or len(must_go) <= unit.spare:
            return must_go
        self._remove(unit.pods)
        return list(unit.pods)

    def _fits(self, node: str) -> bool:
        return isinstance(self._seating.seat_on(self._pod, node, now=self._now), Seat)

    def _remove(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._placements.remove(pod.key)

    def _put_back(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._placements.place(pod, pod.node, pod.gpu_ids, pod.gpu_share)
