"""Recheck of a removal plan against objects just read from the API server, before each step that cannot be undone."""

from collections.abc import Callable, Iterable, Mapping

from ullage.decide.draining.eligibility import is_draining
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.rules import Drainability, DrainBlocked, DrainContext, ruling
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.drain_outcome import RemovalFailure
from ullage.model.drain_promise import PlanViolation, RemovalPlan
from ullage.model.draining import UnremovableReason
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node
from ullage.model.pod import Pod


class Recheck:
    """Rechecks that the NodeRemover calls. `rules` returns the current drain context; `unplaced` finds a pod of a node
    that has no place elsewhere any more."""

    def __init__(
        self, rules: Callable[[], DrainContext], unplaced: Callable[[str], ObjectKey | None] = lambda _: None
    ) -> None:
        self._rules = rules
        self._unplaced = unplaced

    def node(self, promise: RemovalPlan, node: Node | None) -> PlanViolation | None:
        return to_the_node(promise, node)

    def pods(self, promise: RemovalPlan, pods: Iterable[Pod], *, evicted: bool = False) -> PlanViolation | None:
        return to_the_pods(promise, pods, self._rules(), evicted=evicted)

    def gangs(
        self, promise: RemovalPlan, members: Mapping[ObjectKey, Pod], budgets: Iterable[PodDisruptionBudget]
    ) -> PlanViolation | None:
        return to_the_gangs(promise, members, budgets)

    def guarded(self, pods: Iterable[Pod]) -> list[str]:
        budgets = self._rules().budgets
        return sorted({pod.key.namespace for pod in pods if budgets.over(pod)})

    def budgets(self, pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]) -> PlanViolation | None:
        return to_the_budgets(pods, budgets)

    def room(self, promise: RemovalPlan) -> PlanViolation | None:
        pod = self._unplaced(promise.node)
        if pod is None:
            return None
        return PlanViolation(RemovalFailure.NO_PLACE, f"{pod} would have no place elsewhere any more", pod)

    def leaving(self, promise: RemovalPlan, pods: Iterable[Pod]) -> list[Pod]:
        """Pods of the plan to be evicted, and pods being deleted that have to be waited for."""
        rules = self._rules()
        known = [pod for pod in pods if promise.knows(pod)]
        return [pod for pod in known if what_becomes_of(pod, rules) is Drainability.MOVES or pod.deleting]

    def following(self, pods: Iterable[Pod]) -> list[Pod]:
        """Pods that leave with the node and can be evicted. Mirror pods cannot: kubelet owns them."""
        rules = self._rules()
        with_it = [pod for pod in pods if what_becomes_of(pod, rules) is Drainability.GOES_WITH_NODE]
        return [pod for pod in with_it if not pod.marks.mirror and not pod.deleting]


def to_the_node(promise: RemovalPlan, node: Node | None) -> PlanViolation | None:
    """Violation of the plan by the Node object itself."""
    if node is None:
        return PlanViolation(RemovalFailure.NODE_CHANGED, "it is gone")
    if node.uid != promise.uid:
        return PlanViolation(RemovalFailure.NODE_CHANGED, "another node has its name")
    if node.kept:
        return PlanViolation(RemovalFailure.PROTECTED, "its owner wants it kept")
    return None if is_draining(node) else PlanViolation(RemovalFailure.NODE_CHANGED, "its taint is gone")


def to_the_pods(
    promise: RemovalPlan, pods: Iterable[Pod], around: DrainContext, *, evicted: bool = False
) -> PlanViolation | None:
    """Violation of the plan by the pods on the node. `evicted`: no pod that needs a place may be left."""
    for pod in sorted(pods, key=lambda pod: pod.key):
        answer = what_becomes_of(pod, around)
        if answer in (Drainability.GOES_WITH_NODE, Drainability.IGNORED):
            continue
        if not promise.knows(pod):
            return PlanViolation(RemovalFailure.OCCUPIED, f"{pod.key} is on it, which the plan did not know", pod.key)
        if evicted:
            return PlanViolation(RemovalFailure.PODS_REMAIN, f"{pod.key} is still on it", pod.key)
        if answer is not Drainability.MOVES and not pod.deleting:
            why = answer.why.value if isinstance(answer, DrainBlocked) else UnremovableReason.WAITS_FOR_COMPLETION.value
            return PlanViolation(RemovalFailure.POD_MUST_STAY, f"{pod.key} is not to be moved any more: {why}", pod.key)
    return None


def to_the_gangs(
    promise: RemovalPlan, members: Mapping[ObjectKey, Pod], budgets: Iterable[PodDisruptionBudget]
) -> PlanViolation | None:
    """Violation by a gang that moves whole and whose budgets do not allow it. Members that are gone do not count.

    Other pods wait for their budgets until the eviction deadline. A gang does not: part of a gang is of no use.
    """
    allowed = RemainingPdbTracker({budget.key: budget for budget in budgets})
    for gang in sorted(promise.gangs):
        leaving = [members[key] for key in promise.gangs[gang] if key in members]
        refused = allowed.refuses(leaving, in_turn=False)
        if refused is not None:
            detail = f"gang {gang} moves whole, and {allowed.cost(refused)} does not last for all of it"
            return PlanViolation(RemovalFailure.POD_MUST_STAY, detail, refused.key)
        allowed.charge(leaving)
    return None


def to_the_budgets(pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]) -> PlanViolation | None:
    """Violation by the first pod whose eviction is sure to be refused: the others would be evicted in vain."""
    allowed = RemainingPdbTracker({budget.key: budget for budget in budgets})
    for pod in sorted(pods, key=lambda pod: pod.key):
        if allowed.spent(pod):
            detail = f"{allowed.cost(pod)} allows nothing now, and {pod.key} would be refused"
            return PlanViolation(RemovalFailure.BUDGET_SPENT, detail, pod.key)
    return None


def what_becomes_of(pod: Pod, around: DrainContext) -> Drainability | DrainBlocked:
    """Drainability of a pod as in a plan, but a spent budget does not block: the eviction is retried."""
    if pod.phase.over:
        return Drainability.IGNORED
    answer = ruling(pod, around)
    if isinstance(answer, DrainBlocked) and answer.why is UnremovableReason.NOT_ENOUGH_PDB:
        return Drainability.MOVES
    return answer
