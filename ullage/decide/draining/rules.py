"""Drainability rules: may this pod be moved? Twelve rules in order; the first that answers decides. No node is read."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from ullage.decide.draining.inputs import RuleSwitches
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.model.draining import UnremovableReason, WorkloadReplicas
from ullage.model.pod import Phase, Pod
from ullage.model.pod_marks import SafeToEvict

GONE_FOR = 30.0
"""Seconds after its grace period from which a pod being deleted is ignored."""

SYSTEM = "kube-system"
_GROUPS = {"ReplicationController": "", "Job": "batch", "ReplicaSet": "apps", "StatefulSet": "apps"}
"""Controllers of Kubernetes that replace pods on other nodes, with their API groups."""
_WATCHED = _GROUPS | {"DaemonSet": "apps"}
_COUNTED = ("ReplicationController", "ReplicaSet")


class Drainability(Enum):
    """Treatment of a pod whose node is removed."""

    MOVES = "moves"
    GOES_WITH_NODE = "goes with its node"
    IGNORED = "is ignored"
    IS_WAITED_FOR = "is waited for"


@dataclass(frozen=True, slots=True)
class DrainBlocked:
    """The pod must stay on its node."""

    why: UnremovableReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DrainContext:
    """Inputs of the rules beside the pod."""

    switches: RuleSwitches
    budgets: RemainingPdbTracker
    workloads: Mapping[str, WorkloadReplicas]
    workload_kinds: Collection[str]
    now: float

    def at(self, now: float) -> "DrainContext":
        """The same context at another time."""
        return replace(self, now=now)


Answer = Drainability | DrainBlocked | None
Rule = Callable[[Pod, DrainContext], Answer]


def should_be_gone(pod: Pod, *, now: float) -> bool:
    """True if a pod being deleted is overdue: its kubelet is dead, or a finalizer holds it. It is not waited for."""
    moment = _given_up_at(pod)
    return moment is not None and moment < now


def next_given_up(pods: Iterable[Pod], *, now: float) -> float | None:
    """Time at which the next pod being deleted becomes overdue. No event tells that, so the loop needs a deadline."""
    moments = (_given_up_at(pod) for pod in pods if pod.deleting)
    return min((moment for moment in moments if moment is not None and moment >= now), default=None)


def _given_up_at(pod: Pod) -> float | None:
    marks = pod.marks
    return None if marks.deleted_at is None else marks.deleted_at + marks.grace + GONE_FOR


def mirror_pods_go_with_their_node(pod: Pod, _: DrainContext) -> Answer:
    kubelets = pod.marks.mirror or (pod.owner is not None and pod.owner.kind == "Node")
    return Drainability.GOES_WITH_NODE if kubelets else None


def pods_that_should_be_gone_are_ignored(pod: Pod, around: DrainContext) -> Answer:
    return Drainability.IGNORED if should_be_gone(pod, now=around.now) else None


def controllers_must_be_there_and_large_enough(pod: Pod, around: DrainContext) -> Answer:
    owner = pod.owner
    if owner is None or not around.switches.custom_controllers_stay:
        return None
    known = around.workloads.get(owner.uid)
    if known is None:
        ours = owner.kind in around.workload_kinds and _WATCHED.get(owner.kind) == pod.marks.owner_group
        return (
            DrainBlocked(UnremovableReason.CONTROLLER_NOT_FOUND, f"{owner.kind} {owner.name} is gone") if ours else None
        )
    least = around.switches.min_replicas
    if owner.kind in _COUNTED and known.target < least:
        return DrainBlocked(
            UnremovableReason.TOO_FEW_REPLICAS, f"{owner.kind} {owner.name} has {known.target} of at least {least}"
        )
    return None


def daemon_pods_go_with_their_node(pod: Pod, _: DrainContext) -> Answer:
    daemons = pod.marks.daemon or (pod.owner is not None and pod.owner.kind == "DaemonSet")
    return Drainability.GOES_WITH_NODE if daemons else None


def pods_said_to_be_safe_move(pod: Pod, _: DrainContext) -> Answer:
    return Drainability.MOVES if pod.marks.safe_to_evict is SafeToEvict.YES else None


def finished_pods_need_no_place(pod: Pod, _: DrainContext) -> Answer:
    if pod.phase is Phase.FAILED:
        return Drainability.IGNORED
    return Drainability.IGNORED if pod.phase is Phase.SUCCEEDED and pod.marks.restart != "Always" else None


def some_pods_are_to_finish_first(pod: Pod, _: DrainContext) -> Answer:
    return Drainability.IS_WAITED_FOR if pod.marks.safe_to_evict is SafeToEvict.ON_COMPLETION else None


def pods_nobody_makes_again_stay(pod: Pod, around: DrainContext) -> Answer:
    if pod.owner is None:
        return DrainBlocked(UnremovableReason.NOT_REPLICATED, "it has no controller")
    if around.switches.custom_controllers_stay and pod.owner.kind not in _GROUPS:
        return DrainBlocked(UnremovableReason.NOT_REPLICATED, f"{pod.owner.kind} may not make it again")
    return None


def system_pods_without_a_budget_stay(pod: Pod, around: DrainContext) -> Answer:
    if not around.switches.system_pods_stay or pod.key.namespace != SYSTEM or around.budgets.over(pod):
        return None
    if pod.created and pod.created + around.switches.system_pod_grace < around.now:
        return Drainability.MOVES
    return DrainBlocked(UnremovableReason.SYSTEM_POD, "it has no disruption budget")


def pods_said_to_be_unsafe_stay(pod: Pod, _: DrainContext) -> Answer:
    return DrainBlocked(UnremovableReason.NOT_SAFE_TO_EVICT) if pod.marks.safe_to_evict is SafeToEvict.NO else None


def data_on_the_node_stays(pod: Pod, around: DrainContext) -> Answer:
    lost = pod.marks.local_volumes
    if not lost or not around.switches.local_storage_stays:
        return None
    return DrainBlocked(UnremovableReason.LOCAL_STORAGE, f"volume {lost[0]} is on the node")


def budgets_must_not_be_spent(pod: Pod, around: DrainContext) -> Answer:
    if not around.budgets.spent(pod):
        return None
    return DrainBlocked(UnremovableReason.NOT_ENOUGH_PDB, f"{around.budgets.cost(pod)} allows none")


RULES: Sequence[Rule] = (
    mirror_pods_go_with_their_node,
    pods_that_should_be_gone_are_ignored,
    controllers_must_be_there_and_large_enough,
    daemon_pods_go_with_their_node,
    pods_said_to_be_safe_move,
    finished_pods_need_no_place,
    some_pods_are_to_finish_first,
    pods_nobody_makes_again_stay,
    system_pods_without_a_budget_stay,
    pods_said_to_be_unsafe_stay,
    data_on_the_node_stays,
    budgets_must_not_be_spent,
)


def ruling(pod: Pod, around: DrainContext) -> Drainability | DrainBlocked:
    """Apply the rules to a pod. It moves if no rule answers.

    A pod under two budgets stays in any case where it would move: the Eviction API always refuses it.
    """
    return _with_budgets(pod, _first(pod, around), around)


class DrainabilityCache:
    """Rule results for many pods. Pods alike in everything the rules read are evaluated once."""

    def __init__(self, around: DrainContext) -> None:
        self.around = around
        self._known: dict[tuple[int, str, str, Phase], Answer] = {}

    def of(self, pod: Pod) -> Drainability | DrainBlocked:
        if pod.key.namespace == SYSTEM:
            return ruling(pod, self.around)  # age and labels matter there
        owner = pod.owner
        # Marks are compared by identity: all of them live as long as the snapshot.
        alike = (id(pod.marks), "" if owner is None else owner.uid, "" if owner is None else owner.kind, pod.phase)
        try:
            answer = self._known[alike]
        except KeyError:
            answer = self._known[alike] = _first(pod, self.around)
        return _with_budgets(pod, answer, self.around)


def _first(pod: Pod, around: DrainContext) -> Answer:
    """Answer of the first rule that has one. Budgets come last, in `_with_budgets`."""
    for rule in RULES[:-1]:
        answer = rule(pod, around)
        if answer is not None:
            return answer
    return None


def _with_budgets(pod: Pod, answer: Answer, around: DrainContext) -> Drainability | DrainBlocked:
    if around.budgets.none and answer is None:
        return Drainability.MOVES
    if answer is None:
        answer = RULES[-1](pod, around)
    if answer is not None and answer is not Drainability.MOVES:
        return answer
    if len(asked := around.budgets.asked(pod)) > 1:
        return DrainBlocked(UnremovableReason.SEVERAL_PDBS, f"{asked[0]} and {asked[1]} both select it")
    return Drainability.MOVES
