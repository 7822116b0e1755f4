"""May this pod be moved? Twelve rules in order; the first that says something decides. No node is looked at."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ullage.decide.drain.budgets import Budgets
from ullage.decide.drain.facts import RuleSwitches
from ullage.model.drain import WhyStays, Workload
from ullage.model.pod import Phase, Pod
from ullage.model.pod_marks import SafeToEvict

GONE_FOR = 30.0
"""Seconds beyond its grace after which a pod that is being deleted is not waited for any more."""

SYSTEM = "kube-system"
_GROUPS = {"ReplicationController": "", "Job": "batch", "ReplicaSet": "apps", "StatefulSet": "apps"}
"""Controllers of Kubernetes' own that make pods again elsewhere, with their API groups."""
_WATCHED = _GROUPS | {"DaemonSet": "apps"}
_COUNTED = ("ReplicationController", "ReplicaSet")


class Ruling(Enum):
    """What becomes of a pod whose node goes."""

    MOVES = "moves"
    GOES_WITH_NODE = "goes with its node"
    IGNORED = "is ignored"
    IS_WAITED_FOR = "is waited for"


@dataclass(frozen=True, slots=True)
class Blocked:
    """It must stay where it is."""

    why: WhyStays
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What rules look at beside the pod."""

    switches: RuleSwitches
    budgets: Budgets
    workloads: Mapping[str, Workload]
    workload_kinds: Collection[str]
    now: float


Answer = Ruling | Blocked | None
Rule = Callable[[Pod, Circumstances], Answer]


def mirror_pods_go_with_their_node(pod: Pod, _: Circumstances) -> Answer:
    kubelets = pod.marks.mirror or (pod.owner is not None and pod.owner.kind == "Node")
    return Ruling.GOES_WITH_NODE if kubelets else None


def pods_that_should_be_gone_are_ignored(pod: Pod, around: Circumstances) -> Answer:
    marks = pod.marks
    if marks.deleted_at is None:
        return None
    return Ruling.IGNORED if marks.deleted_at + marks.grace + GONE_FOR < around.now else None


def controllers_must_be_there_and_large_enough(pod: Pod, around: Circumstances) -> Answer:
    owner = pod.owner
    if owner is None or not around.switches.custom_controllers_stay:
        return None
    known = around.workloads.get(owner.uid)
    if known is None:
        ours = owner.kind in around.workload_kinds and _WATCHED.get(owner.kind) == pod.marks.owner_group
        return Blocked(WhyStays.CONTROLLER_NOT_FOUND, f"{owner.kind} {owner.name} is gone") if ours else None
    least = around.switches.min_replicas
    if owner.kind in _COUNTED and known.target < least:
        return Blocked(WhyStays.TOO_FEW_REPLICAS, f"{owner.kind} {owner.name} has {known.target} of at least {least}")
    return None


def daemon_pods_go_with_their_node(pod: Pod, _: Circumstances) -> Answer:
    daemons = pod.marks.daemon or (pod.owner is not None and pod.owner.kind == "DaemonSet")
    return Ruling.GOES_WITH_NODE if daemons else None


def pods_said_to_be_safe_move(pod: Pod, _: Circumstances) -> Answer:
    return Ruling.MOVES if pod.marks.safe_to_evict is SafeToEvict.YES else None


def finished_pods_need_no_place(pod: Pod, _: Circumstances) -> Answer:
    if pod.phase is Phase.FAILED:
        return Ruling.IGNORED
    return Ruling.IGNORED if pod.phase is Phase.SUCCEEDED and pod.marks.restart != "Always" else None


def some_pods_are_to_finish_first(pod: Pod, _: Circumstances) -> Answer:
    return Ruling.IS_WAITED_FOR if pod.marks.safe_to_evict is SafeToEvict.ON_COMPLETION else None


def pods_nobody_makes_again_stay(pod: Pod, around: Circumstances) -> Answer:
    if pod.owner is None:
        return Blocked(WhyStays.NOT_REPLICATED, "it has no controller")
    if around.switches.custom_controllers_stay and pod.owner.kind not in _GROUPS:
        return Blocked(WhyStays.NOT_REPLICATED, f"{pod.owner.kind} may not make it again")
    return None


def system_pods_without_a_budget_stay(pod: Pod, around: Circumstances) -> Answer:
    if not around.switches.system_pods_stay or pod.key.namespace != SYSTEM or around.budgets.over(pod):
        return None
    if pod.created and pod.created + around.switches.system_pod_grace < around.now:
        return Ruling.MOVES
    return Blocked(WhyStays.SYSTEM_POD, "it has no disruption budget")


def pods_said_to_be_unsafe_stay(pod: Pod, _: Circumstances) -> Answer:
    return Blocked(WhyStays.NOT_SAFE_TO_EVICT) if pod.marks.safe_to_evict is SafeToEvict.NO else None


def data_on_the_node_stays(pod: Pod, around: Circumstances) -> Answer:
    lost = pod.marks.local_volumes
    if not lost or not around.switches.local_storage_stays:
        return None
    return Blocked(WhyStays.LOCAL_STORAGE, f"volume {lost[0]} is on the node")


def budgets_must_not_be_spent(pod: Pod, around: Circumstances) -> Answer:
    if not around.budgets.spent(pod):
        return None
    return Blocked(WhyStays.NOT_ENOUGH_PDB, f"{around.budgets.cost(pod)} allows none")


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


def ruling(pod: Pod, around: Circumstances) -> Ruling | Blocked:
    """What becomes of a pod whose node goes. One that no rule speaks of moves.

    The Eviction API refuses a pod under two budgets for ever, whatever else is said of it.
    """
    return _with_budgets(pod, _first(pod, around), around)


class Rulings:
    """The same for many pods. Those that differ in nothing rules look at are asked about once."""

    def __init__(self, around: Circumstances) -> None:
        self.around = around
        self._known: dict[tuple[int, str, str, Phase], Answer] = {}

    def of(self, pod: Pod) -> Ruling | Blocked:
        if pod.key.namespace == SYSTEM:
            return ruling(pod, self.around)  # age and labels matter there
        owner = pod.owner
        # Marks are told apart by which object they are: all of them live as long as the picture that is asked about.
        alike = (id(pod.marks), "" if owner is None else owner.uid, "" if owner is None else owner.kind, pod.phase)
        try:
            answer = self._known[alike]
        except KeyError:
            answer = self._known[alike] = _first(pod, self.around)
        return _with_budgets(pod, answer, self.around)


def _first(pod: Pod, around: Circumstances) -> Answer:
    """What the first rule says that says something; budgets are asked last, by `_with_budgets`."""
    for rule in RULES[:-1]:
        answer = rule(pod, around)
        if answer is not None:
            return answer
    return None


def _with_budgets(pod: Pod, answer: Answer, around: Circumstances) -> Ruling | Blocked:
    if around.budgets.none and answer is None:
        return Ruling.MOVES
    if answer is None:
        answer = RULES[-1](pod, around)
    if answer is not None and answer is not Ruling.MOVES:
        return answer
    if len(asked := around.budgets.asked(pod)) > 1:
        return Blocked(WhyStays.SEVERAL_PDBS, f"{asked[0]} and {asked[1]} both select it")
    return Ruling.MOVES
