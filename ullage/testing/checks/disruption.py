"""Every moment of nodes, pods and disruption budgets while nodes are drained, judged in the API server's own order.

Pure: moments in, sentences or figures out. Objects are judged as they are written; nothing of ours that reads or counts
them for decisions is believed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import BUDGETS, NODES, PODS
from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.pod import KubePod
from ullage.kube.objects.policy import KubePodDisruptionBudget
from ullage.kube.read.selectors import read_selector
from ullage.kube.timestamps import read_time
from ullage.model.fact_event import ObjectKey
from ullage.model.selector import Selector
from ullage.testing.checks import recorder

Fact = KubeNode | KubePod | KubePodDisruptionBudget
Change = recorder.RecordedChange[Fact]

OVERDUE_SECONDS = 30.0
"""A pod that should have been gone for so long holds nothing up any more."""
_GOES_WITH_ITS_NODE = ("DaemonSet", "Node")


class DisruptionHistory(recorder.WatchRecorder[Fact]):
    """Records inside its `async with` block. Judge after `whole`."""

    def __init__(self, api: KubeApi) -> None:
        resources = (NODES, PODS, BUDGETS)
        super().__init__(api, *(recorder.WatchedSource[Fact](resource, lambda fact: fact) for resource in resources))


def in_order(changes: Sequence[Change]) -> list[Change]:
    """Moments in the API server's order."""
    return sorted(changes, key=lambda one: one.version)


def is_available(pod: KubePod) -> bool:
    """True if the pod is available as PodDisruptionBudgets count it."""
    ready = any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)
    return ready and pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None


def matters(pod: KubePod) -> bool:
    """True if the pod has to be moved before its node goes: it is not finished and does not leave with its node."""
    owners = {one.kind for one in pod.metadata.owner_references if one.controller}
    return pod.status.phase not in ("Succeeded", "Failed") and owners.isdisjoint(_GOES_WITH_ITS_NODE)


def minimum(budget: KubePodDisruptionBudget, replicas: int) -> int:
    """Minimum number of available pods under this budget, of so many replicas."""
    spec = budget.spec
    if spec.min_available is not None:
        return _of(spec.min_available, replicas)
    return 0 if spec.max_unavailable is None else max(0, replicas - _of(spec.max_unavailable, replicas))


def _of(amount: int | str, whole: int) -> int:
    return amount if isinstance(amount, int) else ceil(int(amount.removesuffix("%")) * whole / 100)


@dataclass(slots=True)
class _Budget:
    least: int
    namespace: str
    selector: Selector
    available: set[str]
    """Uids of available pods."""
    reached: bool = False
    """Before there were enough for the first time, or since more are asked for, there is nothing to keep up."""

    def selects(self, pod: KubePod) -> bool:
        return self.namespace == pod.metadata.namespace and self.selector.matches(pod.metadata.labels)


def below_minimum(changes: Sequence[Change], replicas: Mapping[ObjectKey, int]) -> Iterator[str]:
    """Every moment at which a budget had fewer available pods than it asks for.

    `replicas`: how many pods there should be of what each budget is for.
    """
    budgets: dict[ObjectKey, _Budget] = {}
    pods: dict[str, KubePod] = {}
    for change in in_order(changes):
        fact = change.fact
        if isinstance(fact, KubePodDisruptionBudget):
            key = ObjectKey(fact.metadata.namespace, fact.metadata.name)
            before = budgets.pop(key, None)
            if not change.gone:
                budgets[key] = _read(fact, replicas[key], pods)
                budgets[key].reached = before is not None and before.reached and before.least == budgets[key].least
        elif isinstance(fact, KubePod):
            pods.pop(fact.metadata.uid, None)
            if not change.gone:
                pods[fact.metadata.uid] = fact
            _count(budgets, fact, available=not change.gone and is_available(fact))
        for key, budget in budgets.items():
            enough = len(budget.available) >= budget.least
            if budget.reached and not enough:
                budget.reached = False  # said once, until there are enough again
                yield f"at {change.version} {key} had {len(budget.available)} pods of {budget.least}"
            budget.reached = budget.reached or enough


def _read(fact: KubePodDisruptionBudget, replicas: int, pods: Mapping[str, KubePod]) -> _Budget:
    selector = read_selector(fact.spec.selector)
    if selector is None:
        raise ValueError(f"{fact.metadata.name} selects nothing: there is nothing to judge")
    budget = _Budget(minimum(fact, replicas), fact.metadata.namespace, selector, set())
    budget.available = {uid for uid, pod in pods.items() if budget.selects(pod) and is_available(pod)}
    return budget


def _count(budgets: Mapping[ObjectKey, _Budget], pod: KubePod, *, available: bool) -> None:
    for budget in budgets.values():
        budget.available.discard(pod.metadata.uid)
        if available and budget.selects(pod):
            budget.available.add(pod.metadata.uid)


def bound_late(changes: Sequence[Change], *, after: int, within: float) -> Iterator[str]:
    """Pods made after a version that had no node for too long. One that still has none at the end is late, too."""
    made: dict[str, Change] = {}
    known: set[str] = set()
    last = 0.0
    for change in in_order(changes):
        fact, last = change.fact, max(last, change.at)
        if not isinstance(fact, KubePod):
            continue
        uid = fact.metadata.uid
        if uid not in known and change.version > after:
            made[uid] = change
        known.add(uid)
        if uid in made and (fact.spec.node_name or change.gone):
            waited = change.at - made.pop(uid).at
            if waited > within:
                yield f"{_name(fact)} waited {waited:.1f} s for a node"
    for change in made.values():
        yield f"{_name(change.fact)} has waited for {last - change.at:.1f} s, and has no node"


def went_with_pods(changes: Sequence[Change]) -> Iterator[str]:
    """Nodes deleted with pods on them that had to be moved. Pods overdue for OVERDUE_SECONDS do not count."""
    on: dict[str, dict[str, KubePod]] = {}
    for change in in_order(changes):
        fact = change.fact
        if isinstance(fact, KubePod) and fact.spec.node_name:
            there = on.setdefault(fact.spec.node_name, {})
            there.pop(fact.metadata.uid, None)
            if not change.gone and matters(fact):
                there[fact.metadata.uid] = fact
        elif isinstance(fact, KubeNode) and change.gone:
            for pod in on.get(fact.metadata.name, {}).values():
                due = pod.metadata.deletion_timestamp
                if due is None or read_time(due) + OVERDUE_SECONDS > change.at:
                    yield f"at {change.version} {fact.metadata.name} went with {_name(pod)} on it"


@dataclass(slots=True)
class ObservedDrain:
    """A node with the deletion-time taint: from when to when, and whether the node was removed."""

    node: str
    begun: int
    value: str
    """Value of the taint."""
    pods: int
    """Pods on the node when it was tainted, without those that leave with it."""
    candidate_since: str = ""
    """Value of the taint of candidates, as it was last."""
    ended: int | None = None
    gone: bool = False
    """True if the node was deleted; False if only its taint was removed."""


@dataclass(slots=True)
class _Marks:
    """State of nodes while the recorded changes are replayed."""

    pods: dict[str, set[str]] = field(default_factory=dict)
    """Uids, by node."""
    open: dict[str, ObservedDrain] = field(default_factory=dict)
    since: dict[str, str] = field(default_factory=dict)


def drains(changes: Sequence[Change], *, draining: str, candidate: str) -> list[ObservedDrain]:
    """Every time a node was being removed, by the keys of the two taints, in the order they began."""
    marks, found = _Marks(), list[ObservedDrain]()
    for change in in_order(changes):
        fact = change.fact
        if isinstance(fact, KubePod) and fact.spec.node_name:
            there = marks.pods.setdefault(fact.spec.node_name, set())
            there.discard(fact.metadata.uid)
            if not change.gone and matters(fact):
                there.add(fact.metadata.uid)
        elif isinstance(fact, KubeNode):
            name, taints = fact.metadata.name, {one.key: one.value for one in fact.spec.taints}
            marks.since[name] = taints.get(candidate, marks.since.get(name, ""))
            under_way = marks.open.get(name)
            if under_way is not None and (change.gone or draining not in taints):
                under_way.ended, under_way.gone = change.version, change.gone
                del marks.open[name]
            elif under_way is None and draining in taints and not change.gone:
                count = len(marks.pods.get(name, ()))
                marks.open[name] = ObservedDrain(name, change.version, taints[draining], count, marks.since[name])
                found.append(marks.open[name])
    return found


def most_at_once(spans: Sequence[ObservedDrain]) -> int:
    """Largest number of these drains that ran at the same time."""
    steps = [(one.begun, 1) for one in spans] + [(one.ended, -1) for one in spans if one.ended is not None]
    most = now = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    return most


def timers(changes: Sequence[Change], *, candidate: str) -> dict[str, list[str]]:
    """Values of the deletion-candidate taint on each node, one after another."""
    said: dict[str, list[str]] = {}
    for change in in_order(changes):
        if isinstance(change.fact, KubeNode) and not change.gone:
            for taint in change.fact.spec.taints:
                values = said.setdefault(change.fact.metadata.name, [])
                if taint.key == candidate and values[-1:] != [taint.value]:
                    values.append(taint.value)
    return {name: values for name, values in said.items() if values}


def left_marked(nodes: Sequence[KubeNode], *marks: str) -> Iterator[str]:
    """Nodes that are unschedulable or still have one of these taints, though no drain is under way."""
    for node in nodes:
        found = [taint.key for taint in node.spec.taints if taint.key in marks]
        if node.spec.unschedulable or found:
            yield f"{node.metadata.name} is left with {', '.join(found) or 'unschedulable'}"


def _name(fact: Fact) -> str:
    return f"{fact.metadata.namespace}/{fact.metadata.name}"
