"""Victims on one node: the pods to evict so that the preemptor fits there.

As kube-scheduler does it: remove every pod that may be evicted. If the preemptor then fits, put the pods back one by
one, the most important first, as long as the preemptor still fits. Pods that cannot be put back are victims. The
filters and the device choice of placement are evaluated each time, so victims free the right GPUs.

A node with many pods under scarce disruption budgets is searched in several steps, each in a what-if of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ullage.decide.placement.devices.freeing import DeviceHolding, would_get
from ullage.decide.placement.engine import Placement, PlacementEngine, device_ask
from ullage.decide.preemption.assumptions import Assumptions
from ullage.decide.preemption.least_loss import MOST_SETS, choices, sets_by_loss
from ullage.decide.preemption.protection import EvictionUnit, Limit, VictimProtection, gpus_lost
from ullage.model.pod import Pod
from ullage.model.stepper import StepMeter, Stepper
from ullage.model.units import Seconds
from ullage.model.verdict import Verdict
from ullage.state.device_columns import NodeKindCode

_OFFSET = 2**31

Rank = tuple[int, int, int, int, float, str]
"""Sort key, the best first: lowest highest priority, fewest GPUs lost, lowest sum of priorities, fewest victims,
youngest victims, name of the node."""

RankBound = tuple[int, int, int, int, float]
"""A rank without the name of the node."""

NO_VICTIM: RankBound = (-_OFFSET, 0, 0, 0, 0.0)
"""Rank before every other: no pod need be evicted."""


PLAN_COST, UNIT_COST, CHOICE_COST = 0.000_2, 0.000_15, 0.000_1
"""Modelled CPU seconds of trying one way to spend budgets, of each unit in it, and of a look at the GPUs alone."""


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
            return *NO_VICTIM, self.node
        highest = max(pod.priority for pod in self.victims)
        total = sum(priced(pod.priority) for pod in self.victims)
        earliest = min(pod.created for pod in self.victims if pod.priority == highest)
        lost = sum(gpus_lost(pod) for pod in self.victims)
        return highest, lost, total, len(self.victims), -earliest, self.node


def _rank(found: VictimSet) -> Rank:
    return found.rank


def _orders(plan: Sequence[EvictionUnit]) -> list[list[EvictionUnit]]:
    """Orders in which to put units back: by importance; and, of one priority, those with most GPUs first.

    By age alone, a young pod with eight GPUs is evicted where an old pod with a single GPU would have been enough. By
    GPUs alone, two pods are evicted where one would have been enough. So both orders are tried and compared.
    """
    by_age = sorted(plan, key=lambda unit: unit.importance)
    by_gpus = sorted(by_age, key=lambda unit: (unit.importance[0], -unit.gpus))
    return [by_age] if by_gpus == by_age else [by_age, by_gpus]


class VictimSelector:
    """Selects victims on nodes for one preemptor. Leaves the snapshot as it was after every step."""

    def __init__(self, given: Assumptions, protection: VictimProtection, pod: Pod, meter: StepMeter) -> None:
        self._given = given
        self._engine = given.engine
        self._snapshot = given.engine.snapshot
        self._protection = protection
        self._pod = pod
        self._meter = meter

    def select(self, node: str, least: int = 0, best_elsewhere: Rank | None = None) -> Stepper[VictimSet | None]:
        """Victims on this node; None if evicting every pod that may go is not enough.

        `least`: thousandths of GPUs that are lost here in any case. A set that cannot rank before `best_elsewhere` is
        not made better.
        """
        leaving = self._protection.who_goes(node)[0]
        with self._given.trial():
            self._remove(leaving)
            if leaving and self._fits(node):
                return VictimSet(node, ())
        if self._meter.spend(Seconds(self._given.cost)):
            self._meter.has_time = yield self._meter.take()
            if not self._meter.has_time:
                return None
        best: VictimSet | None = None
        for plan in self._plans(node):
            found = min(self._of_plan(node, leaving, plan), key=_rank, default=None)
            if self._meter.spend(Seconds(PLAN_COST + UNIT_COST * len(plan) + self._given.cost)):
                self._meter.has_time = yield self._meter.take()
            if found is not None:
                worth = best_elsewhere is None or (found.rank[0], least) <= best_elsewhere[:2]
                if found.rank[1] > least and worth:
                    found = yield from self._with_less_lost(found, leaving, plan)
                best = found if best is None else min(best, found, key=_rank)
            if not self._meter.has_time:
                break
        return best

    def _with_less_lost(
        self, found: VictimSet, leaving: Sequence[Pod], plan: Sequence[EvictionUnit]
    ) -> Stepper[VictimSet]:
        """The VictimSet of a plan that loses the fewest GPUs, of no higher priority; `found` if none loses fewer."""
        node, highest = found.node, found.rank[0]
        idle = [unit for unit in plan if not unit.gpus and -unit.importance[0] <= highest]
        holding = [choices(unit, node, highest) for unit in reversed(plan) if unit.gpus]
        best = found
        for lost, chosen in islice(sets_by_loss(holding, found.rank[1]), MOST_SETS):
            if lost > best.rank[1] or not self._meter.has_time:
                break
            if self._frees_devices(node, [*leaving, *(pod for unit in (*idle, *chosen) for pod in unit.pods)]):
                best = min((best, *self._of_plan(node, leaving, [*idle, *chosen])), key=_rank)
                cost = PLAN_COST + UNIT_COST * (len(idle) + len(chosen)) + self._given.cost
            else:
                cost = CHOICE_COST
            if self._meter.spend(Seconds(cost + self._given.cost)):
                self._meter.has_time = yield self._meter.take()
        return best

    def _frees_devices(self, node: str, gone: Sequence[Pod]) -> bool:
        """False if the GPUs of the node would not suit without these pods: found without a what-if."""
        with self._given.trial():
            return would_suit(self._engine, self._pod, node, gone)

    def protected(self, node: str) -> bool:
        """True if the preemptor would fit here without the limits of disruption budgets and gangs."""
        with self._given.trial():
            for pod in list(self._snapshot.pods_on(node).values()):
                if self._protection.leaves(pod) or self._protection.lower(pod):
                    self._snapshot.forget(pod.key)
            return self._fits(node)

    def _plans(self, node: str) -> Iterator[list[EvictionUnit]]:
        """Ways to spend scarce budgets: with whole gangs, and with only members gangs can spare."""
        units = self._protection.units_on(node, breaking=True)
        if units:
            yield from plans(units, self._protection.allows)
        if any(len(unit.pods) > 1 for unit in units):
            spared = self._protection.units_on(node, breaking=False)
            if spared:
                yield from plans(spared, self._protection.allows)

    def _of_plan(self, node: str, leaving: Sequence[Pod], plan: Sequence[EvictionUnit]) -> list[VictimSet]:
        """VictimSets within these units, one for each order of putting them back; none if all are not enough."""
        with self._given.trial():
            self._remove(leaving)
            self._remove(pod for unit in plan for pod in unit.pods)
            if not self._fits(node):
                return []
            return [VictimSet(node, self._victims(node, order)) for order in _orders(plan)]

    def _victims(self, node: str, order: Sequence[EvictionUnit]) -> tuple[Pod, ...]:
        """Pods that cannot be put back when units return in this order."""
        victims: list[Pod] = []
        with self._snapshot.what_if():
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
        if len(unit.pods) == 1 or len(must_go) <= unit.beyond_minimum:
            return must_go
        self._remove(unit.pods)
        return list(unit.pods)

    def _fits(self, node: str) -> bool:
        return isinstance(self._engine.place_on(self._pod, node, now=self._given.now), Placement)

    def _remove(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._snapshot.forget(pod.key)

    def _put_back(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._snapshot.assume(pod, pod.node, pod.gpu_ids, pod.gpu_share)


def would_suit(engine: PlacementEngine, pod: Pod, node: str, gone: Iterable[Pod]) -> bool:
    """True if the node's GPUs would suit the pod once these pods are gone. Always True off leased nodes."""
    columns, ask = engine.snapshot.columns, device_ask(pod)
    row = columns.rows.get(node)
    if row is None:
        return False  # it was deleted since the search began
    gpus = engine.devices.of(row)
    if ask is None or gpus is None or columns.gpus.kind[row] != NodeKindCode.LEASED:
        return True
    here = (one for one in gone if one.node == node and one.gpu_ids)
    held = (DeviceHolding(one.gpu_ids, one.gpu_share, one.gpu_instances) for one in here)
    return not isinstance(would_get(gpus, ask, held), Verdict)


MOST_PLANS = 64
"""Ways to spend scarce budgets that are tried on one node."""

Allows = Callable[[Limit], int]


def plans(units: Sequence[EvictionUnit], allows: Allows) -> Iterator[list[EvictionUnit]]:
    """Sets to which no unit can be added, those of the least important units first. Usually one: all units."""
    wanted: dict[Limit, int] = {}
    for unit in units:
        for limit, count in unit.costs.items():
            wanted[limit] = wanted.get(limit, 0) + count
    scarce = {limit: allows(limit) for limit, count in wanted.items() if count > allows(limit)}
    rivals = [unit for unit in reversed(units) if scarce.keys() & unit.costs.keys()]
    others = [unit for unit in units if not scarce.keys() & unit.costs.keys()]
    for chosen in islice(_subsets(rivals, scarce), MOST_PLANS):
        if _is_largest(chosen, rivals, scarce):
            yield others + chosen


def _subsets(units: Sequence[EvictionUnit], left: dict[Limit, int]) -> Iterator[list[EvictionUnit]]:
    """Sets within the limits: with the first unit if the limits allow it, then without it."""
    if not units:
        yield []
        return
    first, rest = units[0], units[1:]
    if _within(first, left):
        for chosen in _subsets(rest, _spent(first, left)):
            yield [first, *chosen]
    yield from _subsets(rest, left)


def _is_largest(chosen: list[EvictionUnit], units: Sequence[EvictionUnit], left: dict[Limit, int]) -> bool:
    for unit in chosen:
        left = _spent(unit, left)
    return not any(_within(unit, left) for unit in units if unit not in chosen)


def _within(unit: EvictionUnit, left: dict[Limit, int]) -> bool:
    return all(count <= left[limit] for limit, count in unit.costs.items() if limit in left)


def _spent(unit: EvictionUnit, left: dict[Limit, int]) -> dict[Limit, int]:
    return {limit: amount - unit.costs.get(limit, 0) for limit, amount in left.items()}
