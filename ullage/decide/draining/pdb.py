"""Disruption budgets as the Eviction API counts them, charged while a plan is made. No budget goes below zero."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Phase, Pod
from ullage.state.pod_counts import SelectorIndex

_NONE: tuple[ObjectKey, ...] = ()


class RemainingPdbTracker:
    """Evictions each budget still allows, from `status.disruptionsAllowed`, which leaves out unhealthy pods already."""

    def __init__(self, budgets: Mapping[ObjectKey, PodDisruptionBudget]) -> None:
        self._budgets = budgets
        self._allowed = {key: _allowed(budgets[key]) for key in sorted(budgets)}
        self._left = dict(self._allowed)
        self.none = not budgets
        self._over: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        self._index: dict[str, SelectorIndex[ObjectKey]] = {}
        for key in self._allowed:
            self._index.setdefault(key.namespace, SelectorIndex()).add(budgets[key].selector, key)

    @property
    def left(self) -> Mapping[ObjectKey, int]:
        """Evictions left, by budget in the order of names."""
        return MappingProxyType(self._left)

    def over(self, pod: Pod) -> tuple[ObjectKey, ...]:
        """Budgets that select a pod."""
        index = self._index.get(pod.key.namespace)
        if index is None:
            return _NONE
        found = self._over.get(pod.key)
        if found is None:
            meant = (key for key in index.candidates(pod.labels) if self._budgets[key].selector.matches(pod.labels))
            found = self._over[pod.key] = tuple(sorted(meant))
        return found

    def asked(self, pod: Pod) -> tuple[ObjectKey, ...]:
        """Budgets the Eviction API checks for a pod: none if it is pending, finished or being deleted."""
        if pod.key.namespace not in self._index or pod.deleting or pod.phase is Phase.PENDING or pod.phase.over:
            return _NONE
        return self.over(pod)

    def cost(self, pod: Pod) -> ObjectKey | None:
        """Budget charged for a pod's eviction, if any. Pods under several budgets are not evicted, see `rules`."""
        asked = self.asked(pod)
        if not asked:
            return None
        budget = self._budgets[asked[0]]
        if not pod.marks.ready and (budget.evict_unhealthy or budget.current_healthy >= budget.desired_healthy > 0):
            return None
        return budget.key

    def spent(self, pod: Pod) -> bool:
        """True if the pod's budget allows no further eviction."""
        key = self.cost(pod)
        return key is not None and self._left[key] < 1

    def refuses(self, pods: Iterable[Pod], *, in_turn: bool, charged: bool = True) -> Pod | None:
        """First pod whose budget does not allow evicting all of these pods. `in_turn`: see `DrainPolicy`.

        Without `charged`, evictions charged before do not count.
        """
        if not self._index:
            return None
        left = self._left if charged else self._allowed
        taken: dict[ObjectKey, int] = {}
        for pod in pods:
            key = self.cost(pod)
            if key is None:
                continue
            taken[key] = taken.get(key, 0) + 1
            alone = in_turn and left[key] == self._allowed[key] > 0
            if taken[key] > left[key] and not alone:
                return pod
        return None

    def charge(self, pods: Iterable[Pod]) -> None:
        """Charge the evictions of these pods. A budget that allows fewer is used up."""
        if not self._index:
            return
        for pod in pods:
            key = self.cost(pod)
            if key is not None and self._left[key] > 0:
                self._left[key] -= 1


def _allowed(budget: PodDisruptionBudget) -> int:
    """Evictions a budget allows. A status older than the spec allows none, as in the Eviction API."""
    return max(budget.disruptions_allowed, 0) if budget.current else 0
