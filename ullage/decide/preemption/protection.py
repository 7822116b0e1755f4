"""Pods that may be evicted for a preemptor, and the units in which they go.

kube-scheduler treats disruption budgets as a preference. Here a pod whose budget is spent is never a victim. A pod
under two budgets is never a victim either: the Eviction API always refuses it. Pods of a bound gang go one by one while
enough members stay, and then all together or not at all.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from ullage.decide.placement.filters.codes import Codes
from ullage.model.device import MILLI_GPU
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Phase, Pod
from ullage.model.resources import GPU
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class BoundGang:
    """A gang with members on nodes."""

    key: ObjectKey
    min_member: int
    members: tuple[ObjectKey, ...]
    """Members that hold room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionContext:
    """Inputs of a preemption beside the snapshot."""

    gangs: Mapping[ObjectKey, BoundGang] = field(default_factory=dict)
    """Bound gangs by member."""
    leaving: Collection[ObjectKey] = frozenset()
    """Pods whose eviction is decided, observed as terminating or not."""
    closed: Codes | None = None
    """Codes of rows that a quota closes: no pod is evicted where the preemptor may not go."""
    nominated: tuple[Pod, ...] = ()
    """Nominated pods, with what their claims ask for."""


_priority = attrgetter("priority")

MOST_INSTANCES = 7
"""Most MIG instances of one GPU."""


def gpus_lost(pod: Pod) -> int:
    """Thousandths of GPUs whose work ends with a pod: those it holds, or those it requests if that is more."""
    if pod.gpu_instances:
        return len(pod.gpu_instances) * (MILLI_GPU // MOST_INSTANCES)
    requested = next((amount for name, amount in pod.shape.requests if name == GPU), 0)
    return max(requested, len(pod.gpu_ids) * pod.gpu_share)


Limit = tuple[str, ObjectKey]
"""Kind and key of a disruption budget or gang, which allows a number of victims."""


@dataclass(frozen=True, slots=True)
class EvictionUnit:
    """Pods that are evicted or kept together: one pod, or a gang."""

    pods: tuple[Pod, ...]
    costs: Mapping[Limit, int]
    beyond_minimum: int = 0
    """Number of pods that may go without the others: members of a gang beyond its min_member."""

    @property
    def importance(self) -> tuple[int, Instant, ObjectKey]:
        """Sort key, the most important first: higher priority, then older."""
        first = min(self.pods, key=lambda pod: (pod.created, pod.key))
        return -max(pod.priority for pod in self.pods), first.created, first.key

    @property
    def gpus(self) -> int:
        """Thousandths of GPUs lost if all pods of the unit go."""
        return sum(map(gpus_lost, self.pods))


class VictimProtection:
    """Protection of pods from one preemptor at one instant: priority, disruption budgets and gangs."""

    def __init__(self, snapshot: ClusterSnapshot, around: PreemptionContext, priority: int) -> None:
        self._snapshot = snapshot
        self._around = around
        self._priority = priority
        self._observed = snapshot.state.pods
        self._gangs: dict[ObjectKey, BoundGang] = {}
        """Gangs of the pods that were asked about."""
        self._budgets: dict[str, list[PodDisruptionBudget]] = {}
        for key in sorted(snapshot.state.budgets):
            self._budgets.setdefault(key.namespace, []).append(snapshot.state.budgets[key])
        self._spent: dict[ObjectKey, int] = {}
        self._who_goes: dict[str, tuple[list[Pod], list[Pod]]] = {}
        for key in sorted(around.leaving):
            pod = snapshot.state.pods.get(key)
            if pod is not None and not pod.deleting:  # its budget does not know of it yet
                for budget in self._over(pod):
                    self._spent[budget.key] = self._spent.get(budget.key, 0) + 1

    def leaves(self, pod: Pod) -> bool:
        """True if the pod is leaving already: it is being deleted, or its eviction is decided."""
        return pod.deleting or pod.key in self._around.leaving

    def lower(self, pod: Pod) -> bool:
        """True if the pod could be evicted but for budgets and gangs. Static pods and pods not yet bound cannot."""
        if pod.priority >= self._priority or self.leaves(pod):
            return False
        return self._could_be_evicted(pod)

    def _could_be_evicted(self, pod: Pod) -> bool:
        known = self._observed.get(pod.key)
        return known is not None and known.node == pod.node and (pod.owner is None or pod.owner.kind != "Node")

    @property
    def closed(self) -> Codes | None:
        """Codes of rows where no pod is evicted for this preemptor."""
        return self._around.closed

    def who_goes(self, node: str) -> tuple[list[Pod], list[Pod]]:
        """Pods of a node that leave anyway, and pods that could be evicted, the lowest priority first.

        Cached per node: callers read it several times before any pod is removed in a what-if, and never after. A search
        that lets events in between calls `refresh` first.
        """
        known = self._who_goes.get(node)
        if known is None:
            known = self._who_goes[node] = self._look_who_goes(node)
        return known

    def refresh(self, node: str) -> None:
        """Forget what was read of a node: its pods may have changed."""
        self._who_goes.pop(node, None)

    def may_go(self, pods: Collection[Pod]) -> bool:
        """True if all these pods may be evicted together."""
        costs = self._costs(pods)
        if any(count > self.allows(limit) for limit, count in costs.items()):
            return False
        keys = {pod.key for pod in pods}
        gangs = {gang.key: gang for pod in pods if (gang := self._around.gangs.get(pod.key)) is not None}
        for gang in gangs.values():
            stay = sum(pod.key not in keys for pod in self._live(gang))
            if 0 < stay < gang.min_member:
                return False
        return all(self._takeable(pod) for pod in pods)

    def _look_who_goes(self, node: str) -> tuple[list[Pod], list[Pod]]:
        leaving: list[Pod] = []
        lower: list[Pod] = []
        decided, priority = self._around.leaving, self._priority
        for pod in self._snapshot.pods_on(node).values():  # of every node in the cluster: kept short
            if pod.deleting or pod.key in decided:
                leaving.append(pod)
            elif pod.priority < priority and self._could_be_evicted(pod):
                lower.append(pod)
        if len(lower) > 1:
            lower.sort(key=_priority)
        return leaving, lower

    def units_on(self, node: str, *, breaking: bool) -> list[EvictionUnit]:
        """Units that may be evicted from a node, the most important first. `breaking` allows evicting whole gangs."""
        here = [pod for pod in self._snapshot.pods_on(node).values() if self._takeable(pod)]
        units: list[EvictionUnit] = []
        gangs: dict[ObjectKey, list[Pod]] = {}
        for pod in here:
            gang = self._around.gangs.get(pod.key)
            if gang is None:
                units.append(EvictionUnit((pod,), self._costs((pod,))))
            else:
                self._gangs[gang.key] = gang
                gangs.setdefault(gang.key, []).append(pod)
        for members in gangs.values():
            units += self._gang_units(self._around.gangs[members[0].key], members, breaking)
        return sorted(units, key=lambda unit: unit.importance)

    def allows(self, limit: Limit) -> int:
        """Number of further victims a limit allows."""
        kind, key = limit
        if kind == "gang":
            return max(self._surplus(self._gangs[key]), 0)
        budget = self._snapshot.state.budgets[key]
        allowed = budget.disruptions_allowed if budget.current else 0
        return max(allowed - self._spent.get(key, 0), 0)

    def _gang_units(self, gang: BoundGang, here: list[Pod], breaking: bool) -> Iterable[EvictionUnit]:
        surplus = max(self._surplus(gang), 0)
        if len(here) > surplus and breaking:
            whole = self._live(gang)
            costs = self._costs(whole)
            if all(self._takeable(pod) for pod in whole) and all(n <= self.allows(limit) for limit, n in costs.items()):
                return [EvictionUnit(tuple(whole), costs, surplus)]
        if not surplus:
            return []
        limit: Limit = ("gang", gang.key)
        return [EvictionUnit((pod,), {limit: 1, **self._costs((pod,))}) for pod in here]

    def _surplus(self, gang: BoundGang) -> int:
        return len(self._live(gang)) - gang.min_member

    def _live(self, gang: BoundGang) -> list[Pod]:
        known = (self._snapshot.pods.get(key) for key in sorted(gang.members))
        return [pod for pod in known if pod is not None and not self.leaves(pod)]

    def _takeable(self, pod: Pod) -> bool:
        """True if the pod could be evicted alone, as far as disruption budgets tell."""
        if not self.lower(pod):
            return False
        over = self._over(pod)
        return len(over) <= 1 and all(self.allows(("budget", budget.key)) > 0 for budget in over)

    def _over(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Budgets the pod's eviction counts against. A pending pod is evicted without any."""
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
