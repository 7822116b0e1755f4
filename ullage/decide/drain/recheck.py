"""Whether a removal that was planned is still right, by what is there now. Asked of things read a moment ago."""

from collections.abc import Callable, Iterable, Mapping

from ullage.decide.drain.budgets import Budgets
from ullage.decide.drain.eligibility import is_draining
from ullage.decide.drain.rules import Blocked, Circumstances, Ruling, ruling
from ullage.model.budget import Budget
from ullage.model.drain import WhyStays
from ullage.model.drain_outcome import DrainSetback
from ullage.model.drain_promise import Objection, Promise
from ullage.model.event import ObjectKey
from ullage.model.node import Node
from ullage.model.pod import Pod


class Recheck:
    """What hands ask before they go on. `rules` are those of the moment they ask; `unplaced` finds a pod of a node that
    has no place elsewhere any more."""

    def __init__(
        self, rules: Callable[[], Circumstances], unplaced: Callable[[str], ObjectKey | None] = lambda _: None
    ) -> None:
        self._rules = rules
        self._unplaced = unplaced

    def node(self, promise: Promise, node: Node | None) -> Objection | None:
        return to_the_node(promise, node)

    def pods(self, promise: Promise, pods: Iterable[Pod], *, evicted: bool = False) -> Objection | None:
        return to_the_pods(promise, pods, self._rules(), evicted=evicted)

    def gangs(self, promise: Promise, members: Mapping[ObjectKey, Pod], budgets: Iterable[Budget]) -> Objection | None:
        return to_the_gangs(promise, members, budgets)

    def room(self, promise: Promise) -> Objection | None:
        pod = self._unplaced(promise.node)
        if pod is None:
            return None
        return Objection(DrainSetback.NO_PLACE, f"{pod} would have no place elsewhere any more", pod)

    def leaving(self, promise: Promise, pods: Iterable[Pod]) -> list[Pod]:
        """Those that have to be evicted, or are going already and have to be waited for."""
        rules = self._rules()
        known = [pod for pod in pods if promise.knows(pod)]
        return [pod for pod in known if what_becomes_of(pod, rules) is Ruling.MOVES or pod.deleting]

    def following(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those that go with their node, and can be told so. Mirror pods are kubelet's own."""
        rules = self._rules()
        with_it = [pod for pod in pods if what_becomes_of(pod, rules) is Ruling.GOES_WITH_NODE]
        return [pod for pod in with_it if not pod.marks.mirror and not pod.deleting]


def to_the_node(promise: Promise, node: Node | None) -> Objection | None:
    """What speaks against removing this node, by itself."""
    if node is None:
        return Objection(DrainSetback.NODE_CHANGED, "it is gone")
    if node.uid != promise.uid:
        return Objection(DrainSetback.NODE_CHANGED, "another node has its name")
    if node.kept:
        return Objection(DrainSetback.PROTECTED, "its owner wants it kept")
    return None if is_draining(node) else Objection(DrainSetback.NODE_CHANGED, "its taint is gone")


def to_the_pods(
    promise: Promise, pods: Iterable[Pod], around: Circumstances, *, evicted: bool = False
) -> Objection | None:
    """What speaks against it of the pods that are on the node. `evicted`: by now, nobody may be there who matters."""
    for pod in sorted(pods, key=lambda pod: pod.key):
        answer = what_becomes_of(pod, around)
        if answer in (Ruling.GOES_WITH_NODE, Ruling.IGNORED):
            continue
        if not promise.knows(pod):
            return Objection(DrainSetback.OCCUPIED, f"{pod.key} is on it, which the plan did not know", pod.key)
        if evicted:
            return Objection(DrainSetback.PODS_REMAIN, f"{pod.key} is still on it", pod.key)
        if answer is not Ruling.MOVES and not pod.deleting:
            why = answer.why.value if isinstance(answer, Blocked) else WhyStays.WAITS_FOR_COMPLETION.value
            return Objection(DrainSetback.POD_MUST_STAY, f"{pod.key} is not to be moved any more: {why}", pod.key)
    return None


def to_the_gangs(promise: Promise, members: Mapping[ObjectKey, Pod], budgets: Iterable[Budget]) -> Objection | None:
    """Whether budgets last for all members of every gang that has to move whole. `members` that are gone are left out.

    Lone pods wait for their budgets as long as it takes; half a gang is of no use to anybody.
    """
    allowed = Budgets({budget.key: budget for budget in budgets})
    for gang in sorted(promise.gangs):
        leaving = [members[key] for key in promise.gangs[gang] if key in members]
        refused = allowed.refuses(leaving, in_turn=False)
        if refused is not None:
            detail = f"gang {gang} moves whole, and {allowed.cost(refused)} does not last for all of it"
            return Objection(DrainSetback.POD_MUST_STAY, detail, refused.key)
        allowed.charge(leaving)
    return None


def what_becomes_of(pod: Pod, around: Circumstances) -> Ruling | Blocked:
    """As in a plan, but a budget that allows nothing now is only a reason to wait."""
    if pod.phase.over:
        return Ruling.IGNORED
    answer = ruling(pod, around)
    if isinstance(answer, Blocked) and answer.why is WhyStays.NOT_ENOUGH_PDB:
        return Ruling.MOVES
    return answer
