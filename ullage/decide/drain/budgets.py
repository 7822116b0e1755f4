"""Disruption budgets as the Eviction API counts them, charged while a plan is made. None is charged below zero."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ullage.model.budget import Budget
from ullage.model.event import ObjectKey
from ullage.model.pod import Phase, Pod
from ullage.state.tally import SelectorIndex

_NONE: tuple[ObjectKey, ...] = ()


class Budgets:
    """What is left of each budget. `status.disruptionsAllowed` leaves unhealthy pods out already."""

    def __init__(self, budgets: Mapping[ObjectKey, Budget]) -> None:
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
        """By name."""
        return MappingProxyType(self._left)

    def over(self, pod: Pod) -> tuple[ObjectKey, ...]:
        """The budgets that select a pod."""
        index = self._index.get(pod.key.namespace)
        if index is None:
            return _NONE
        found = self._over.get(pod.key)
        if found is None:
            meant = (key for key in index.candidates(pod.labels) if self._budgets[key].selector.matches(pod.labels))
            found = self._over[pod.key] = tuple(sorted(meant))
        return found

    def asked(self, pod: Pod) -> tuple[ObjectKey, ...]:
        """The budgets the Eviction API would look at: none for a pod that never started or is going anyway."""
        if pod.key.namespace not in self._index or pod.deleting or pod.phase is Phase.PENDING or pod.phase.over:
            return _NONE
        return self.over(pod)

    def cost(self, pod: Pod) -> ObjectKey | None:
        """The one budget a pod's eviction is charged to, if any. Pods under several are not evicted: see `asked`."""
        asked = self.asked(pod)
        if not asked:
            return None
        budget = self._budgets[asked[0]]
        if not pod.marks.ready and (budget.evict_unhealthy or budget.current_healthy >= budget.desired_healthy > 0):
            return None
        return budget.key

    def spent(self, pod: Pod) -> bool:
        """Whether the pod's budget allows no eviction at all any more."""
        key = self.cost(pod)
        return key is not None and self._left[key] < 1

    def refuses(self, pods: Iterable[Pod], *, in_turn: bool) -> Pod | None:
        """The first pod whose budget does not last for all of them. `in_turn`: see `DrainPolicy`."""
        if not self._index:
            return None
        taken: dict[ObjectKey, int] = {}
        for pod in pods:
            key = self.cost(pod)
            if key is None:
                continue
            taken[key] = taken.get(key, 0) + 1
            alone = in_turn and self._left[key] == self._allowed[key] > 0
            if taken[key] > self._left[key] and not alone:
                return pod
        return None

    def charge(self, pods: Iterable[Pod]) -> None:
        """They are to be evicted. A budget that does not last is used up."""
        if not self._index:
            return
        for pod in pods:
            key = self.cost(pod)
            if key is not None and self._left[key] > 0:
                self._left[key] -= 1


def _allowed(budget: Budget) -> int:
    """A status that is behind the spec allows nothing, as for the Eviction API."""
    return max(budget.disruptions_allowed, 0) if budget.current else 0
