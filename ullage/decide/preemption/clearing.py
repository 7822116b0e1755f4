"""Victims on one node: the pods to evict so that the preemptor fits there.

As kube-scheduler does it: remove every pod that may be evicted. If the preemptor then fits, put the pods back one by
one, the most important first, as long as the preemptor still fits. Pods that cannot be put back are victims. The
filters and the device choice of placement are evaluated each time, so victims free the right GPUs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ullage.decide.placement.engine import Placement, PlacementEngine
from ullage.decide.preemption.plans import plans
from ullage.decide.preemption.protection import EvictionUnit, VictimProtection, gpus_lost
from ullage.model.pod import Pod

_OFFSET = 2**31

Rank = tuple[int, int, int, int, float, str]
"""Sort key, the best first: lowest highest priority, fewest GPUs lost, lowest sum of priorities, fewest victims,
youngest victims, name of the node."""

Promise = tuple[int, int, int, int, float]
"""A rank without the name of the node."""

NOBODY: Promise = (-_OFFSET, 0, 0, 0, 0.0)
"""Rank before every other: no pod need be evicted."""


def priced(priority: int) -> int:
    """Term of a victim in the sum of priorities: never negative, so that more victims never sum up to less."""
    return priority + _OFFSET


@dataclass(frozen=True, slots=True)
class VictimSet:
    """A node on which the preemptor would fit, and the pods to evict there."""

    node: str
    victims: tuple[Pod, ...]
    """Least important first; empty if the pods in the way are leaving already."""

    @property
    def rank(self) -> Rank:
        if not self.victims:
            return *NOBODY, self.node
        highest = max(pod.priority for pod in self.victims)
        total = sum(priced(pod.priority) for pod in self.victims)
        earliest = min(pod.created for pod in self.victims if pod.priority == highest)
        lost = sum(gpus_lost(pod) for pod in self.victims)
        return highest, lost, total, len(self.victims), -earliest, self.node


def _orders(plan: Sequence[EvictionUnit]) -> list[list[EvictionUnit]]:
    """Orders in which to put units back: by importance; and, of one priority, those with most GPUs first.

    By age alone, a young pod with eight GPUs is evicted where an old pod with a single GPU would have been enough. By
    GPUs alone, two pods are evicted where one would have been enough. So both orders are tried and compared.
    """
    by_age = sorted(plan, key=lambda unit: unit.importance)
    by_gpus = sorted(by_age, key=lambda unit: (unit.importance[0], -unit.gpus))
    return [by_age] if by_gpus == by_age else [by_age, by_gpus]


class VictimSelector:
    """Selects victims on nodes for one preemptor. Leaves the snapshot as it was."""

    def __init__(self, seating: PlacementEngine, protection: VictimProtection, pod: Pod, *, now: float) -> None:
        self._seating = seating
        self._placements = seating.placements
        self._protection = protection
        self._pod = pod
        self._now = now

    def clear(self, node: str) -> VictimSet | None:
        """Victims on this node; None if evicting every pod that may go is not enough."""
        leaving = self._protection.who_goes(node)[0]
        with self._placements.what_if():
            self._remove(leaving)
            if leaving and self._fits(node):
                return VictimSet(node, ())
            return min(self._ways(node), key=lambda clearing: clearing.rank, default=None)

    def protected(self, node: str) -> bool:
        """True if the preemptor would fit here without the limits of disruption budgets and gangs."""
        with self._placements.what_if():
            for pod in list(self._placements.pods_on(node).values()):
                if self._protection.leaves(pod) or self._protection.lower(pod):
                    self._placements.remove(pod.key)
            return self._fits(node)

    def _ways(self, node: str) -> Iterator[VictimSet]:
        """VictimSets of all ways to spend scarce budgets: with whole gangs, and with only members gangs can spare."""
        units = self._protection.units_on(node, breaking=True)
        yield from self._clearings(node, units)
        if any(len(unit.pods) > 1 for unit in units):
            yield from self._clearings(node, self._protection.units_on(node, breaking=False))

    def _clearings(self, node: str, units: Sequence[EvictionUnit]) -> Iterator[VictimSet]:
        for plan in plans(units, self._protection.allows) if units else ():
            found: list[VictimSet] = []
            with self._placements.what_if():
                self._remove(pod for unit in plan for pod in unit.pods)
                if self._fits(node):
                    found = [VictimSet(node, self._victims(node, order)) for order in _orders(plan)]
            yield from found

    def _victims(self, node: str, order: Sequence[EvictionUnit]) -> tuple[Pod, ...]:
        """Pods that cannot be put back when units return in this order."""
        victims: list[Pod] = []
        with self._placements.what_if():
            for unit in order:
                victims += self._not_put_back(node, unit)
        return tuple(sorted(victims, key=lambda pod: (pod.priority, -pod.created, pod.key)))

    def _not_put_back(self, node: str, unit: EvictionUnit) -> list[Pod]:
        """Pods of a unit that must be evicted. Up to `spare` may go alone; if more must go, all must."""
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
        return isinstance(self._seating.seat_on(self._pod, node, now=self._now), Placement)

    def _remove(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._placements.remove(pod.key)

    def _put_back(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._placements.place(pod, pod.node, pod.gpu_ids, pod.gpu_share)
