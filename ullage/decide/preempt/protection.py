"""Who may be evicted for a pod, and together with whom.

Unlike kube-scheduler, which treats disruption budgets as a wish, nobody is taken whose budget is spent. A pod under two
budgets is never taken: the Eviction API refuses it for ever. Pods of a bound gang go one by one while enough members
stay, and then all together or not at all.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from ullage.decide.fit.codes import Codes
from ullage.model.budget import Budget
from ullage.model.event import ObjectKey
from ullage.model.pod import Phase, Pod
from ullage.state.placements import Placements


@dataclass(frozen=True, slots=True)
class BoundGang:
    """A gang with members on nodes."""

    key: ObjectKey
    min_member: int
    members: tuple[ObjectKey, ...]
    """Those that hold room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What else matters to a preemption, beside the picture."""

    gangs: Mapping[ObjectKey, BoundGang] = field(default_factory=dict)
    """By member."""
    leaving: Collection[ObjectKey] = frozenset()
    """Pods whose eviction is decided, whether or not they are seen to be terminating."""
    closed: Codes | None = None
    """Codes of rows that a quota closes: nobody is evicted where the pod may not go."""
    nominated: tuple[Pod, ...] = ()
    """Pods for which a node is being made free, with what their claims ask for."""


_priority = attrgetter("priority")

Limit = tuple[str, ObjectKey]
"""A budget or a gang: something that allows only so many victims."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that are evicted or spared together: one pod, or a gang."""

    pods: tuple[Pod, ...]
    costs: Mapping[Limit, int]
    spare: int = 0
    """How many of them may go without the others: what a gang has beyond its least size."""

    @property
    def importance(self) -> tuple[int, float, ObjectKey]:
        """Sorts the most important first: higher priority, then longer there."""
        first = min(self.pods, key=lambda pod: (pod.created, pod.key))
        return -max(pod.priority for pod in self.pods), first.created, first.key


class Protection:
    """What protects pods from one preemptor at one moment."""

    def __init__(self, placements: Placements, around: Surroundings, priority: int) -> None:
        self._placements = placements
        self._around = around
        self._priority = priority
        self._heard = placements.state.pods
        self._gangs = {gang.key: gang for gang in around.gangs.values()}
        self._budgets: dict[str, list[Budget]] = {}
        for key in sorted(placements.state.budgets):
            self._budgets.setdefault(key.namespace, []).append(placements.state.budgets[key])
        self._spent: dict[ObjectKey, int] = {}
        for key in sorted(around.leaving):
            pod = placements.state.pods.get(key)
            if pod is not None and not pod.deleting:  # its budget does not know of it yet
                for budget in self._over(pod):
                    self._spent[budget.key] = self._spent.get(budget.key, 0) + 1

    def leaves(self, pod: Pod) -> bool:
        """It is going anyway."""
        return pod.deleting or pod.key in self._around.leaving

    def lower(self, pod: Pod) -> bool:
        """It could be evicted if nothing protected it. What is not bound yet, or has no life in the API, could not."""
        if pod.priority >= self._priority or self.leaves(pod):
            return False
        known = self._heard.get(pod.key)
        return known is not None and known.node == pod.node and (pod.owner is None or pod.owner.kind != "Node")

    @property
    def closed(self) -> Codes | None:
        """Rows where nobody is evicted for this pod."""
        return self._around.closed

    def who_goes(self, node: str) -> tuple[list[Pod], list[Pod]]:
        """Those on a node who leave anyway, and those who could be made to, the lowest priority first."""
        leaving: list[Pod] = []
        lower: list[Pod] = []
        decided, priority = self._around.leaving, self._priority
        for pod in self._placements.pods_on(node).values():  # of every node in the cluster: kept short
            if pod.deleting or pod.key in decided:
                leaving.append(pod)
            elif pod.priority < priority and self.lower(pod):
                lower.append(pod)
        if len(lower) > 1:
            lower.sort(key=_priority)
        return leaving, lower

    def units_on(self, node: str, *, breaking: bool) -> list[Unit]:
        """Who may be evicted from a node, the most important first. `breaking` allows to end whole gangs."""
        here = [pod for pod in self._placements.pods_on(node).values() if self._takeable(pod)]
        units: list[Unit] = []
        gangs: dict[ObjectKey, list[Pod]] = {}
        for pod in here:
            gang = self._around.gangs.get(pod.key)
            if gang is None:
                units.append(Unit((pod,), self._costs((pod,))))
            else:
                gangs.setdefault(gang.key, []).append(pod)
        for members in gangs.values():
            units += self._gang_units(self._around.gangs[members[0].key], members, breaking)
        return sorted(units, key=lambda unit: unit.importance)

    def allows(self, limit: Limit) -> int:
        """How many more victims a limit takes."""
        kind, key = limit
        if kind == "gang":
            return max(self._surplus(self._gangs[key]), 0)
        budget = self._placements.state.budgets[key]
        allowed = budget.disruptions_allowed if budget.current else 0
        return max(allowed - self._spent.get(key, 0), 0)

    def _gang_units(self, gang: BoundGang, here: list[Pod], breaking: bool) -> Iterable[Unit]:
        surplus = max(self._surplus(gang), 0)
        if len(here) > surplus and breaking:
            whole = self._live(gang)
            costs = self._costs(whole)
            if all(self._takeable(pod) for pod in whole) and all(n <= self.allows(limit) for limit, n in costs.items()):
                return [Unit(tuple(whole), costs, surplus)]
        if not surplus:
            return []
        limit: Limit = ("gang", gang.key)
        return [Unit((pod,), {limit: 1, **self._costs((pod,))}) for pod in here]

    def _surplus(self, gang: BoundGang) -> int:
        return len(self._live(gang)) - gang.min_member

    def _live(self, gang: BoundGang) -> list[Pod]:
        known = (self._placements.pods.get(key) for key in sorted(gang.members))
        return [pod for pod in known if pod is not None and not self.leaves(pod)]

    def _takeable(self, pod: Pod) -> bool:
        """It could go on its own, as far as budgets tell."""
        if not self.lower(pod):
            return False
        over = self._over(pod)
        return len(over) <= 1 and all(self.allows(("budget", budget.key)) > 0 for budget in over)

    def _over(self, pod: Pod) -> list[Budget]:
        """Budgets its eviction counts against. A pod that never started is evicted without asking any."""
        if pod.phase is Phase.PENDING:
            return []
        among = self._budgets.get(pod.key.namespace, ())
        return [budget for budget in among if budget.selector.matches(pod.labels)]

    def _costs(self, pods: Iterable[Pod]) -> dict[Limit, int]:
        costs: dict[Limit, int] = {}
        for pod in pods:
            for budget in self._over(pod):
                costs["budget", budget.key] = costs.get(("budget", budget.key), 0) + 1
        return costs
