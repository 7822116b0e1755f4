"""Remedies that let a closed node take pods again, tried on a copy; and what keeps pods off a node."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ullage.decide.explain import remedies_of_gpus as gpus
from ullage.decide.explain import remedies_of_nodes as nodes
from ullage.decide.explain.answer import some
from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.proof import Proof, ProvedRemedy, apply
from ullage.decide.explain.remedy import Case, Remedy, new_pod
from ullage.decide.placement.devices.freshness import STALE_AFTER
from ullage.decide.placement.filters.node_terms import UNSCHEDULABLE
from ullage.decide.placement.obstacle import Obstacle
from ullage.decide.scheduling.assignment import PodAssigner, queue_order, waits
from ullage.model.admission import LEASED_TAINT
from ullage.model.device import DeviceHealth
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node, Taint
from ullage.model.pod import Pod
from ullage.model.resources import GPU, MILLI
from ullage.model.units import Instant
from ullage.model.verdict import Reason
from ullage.state.node_columns import UNREADY_TAINTS, awaits_gpus

MOST_ASKED = 64
"""Waiting pods that the node is asked about, at most."""

_MAKERS: Mapping[Reason, Callable[[Case], Iterator[Remedy]]] = {
    Reason.NODE_STARTING: nodes.started,
    Reason.NODE_NOT_READY: nodes.made_ready,
    Reason.NODE_UNSCHEDULABLE: nodes.uncordoned,
    Reason.INVENTORY_MISSING: gpus.agent_runs,
    Reason.INVENTORY_STALE: gpus.agent_back,
    Reason.GPUS_UNHEALTHY: gpus.repaired,
}
_OF_STATE = UNREADY_TAINTS | {UNSCHEDULABLE.key}
"""Taints that say again that a node is not ready or is cordoned."""
_ANYBODY = new_pod(ObjectKey("default", "pod"))
"""Pod that stands for those that will come, where none waits."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Answers of a node to the pods that wait."""

    refused: dict[ObjectKey, Reason]
    fitting: tuple[str, ...]

    @property
    def counts(self) -> Counter[Reason]:
        return Counter(self.refused.values())


def closed(assigner: PodAssigner, node: Node, now: Instant) -> list[tuple[Reason, str]]:
    """Reasons that keep all pods off the node, whatever they ask for; the first is reported first."""
    found: list[tuple[Reason, str]] = []
    if node.starting or awaits_gpus(node):
        what = "it has registered and is not ready yet" if node.starting else "its GPUs have not appeared yet"
        found.append((Reason.NODE_STARTING, what))
    elif not node.ready:
        found.append((Reason.NODE_NOT_READY, "it was ready and is not any more"))
    if node.unschedulable:
        found.append((Reason.NODE_UNSCHEDULABLE, "it is cordoned"))
    report = assigner.snapshot.state.inventories.get(node.name)
    count = node.allocatable.get(GPU, 0) // MILLI
    if count and report is None:
        found.append((Reason.INVENTORY_MISSING, f"nobody reports which GPUs it has; kubelet counts {count}"))
    elif report is not None and report.reported_at < now - STALE_AFTER:
        found.append((Reason.INVENTORY_STALE, f"its agent reported {now - report.reported_at:.0f} s ago"))
    ill = [] if report is None else [one.id for one in report.devices if one.health is not DeviceHealth.HEALTHY]
    if ill:
        found.append((Reason.GPUS_UNHEALTHY, f"GPU {','.join(map(str, ill))} is not healthy"))
    return found


def keeping_off(node: Node) -> list[Taint]:
    """Taints that keep off pods which do not tolerate them, and do not repeat the state of the node."""
    closing = (taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute"))
    return [taint for taint in closing if taint.key not in _OF_STATE]


def only_claims(taint: Taint) -> bool:
    """True for the taint of agents, which every pod with a claim tolerates: it closes no node."""
    return taint.key == LEASED_TAINT


def ask(assigner: PodAssigner, node: Node, now: Instant) -> Asked:
    """Ask the node about pods that wait."""
    refused, fitting = dict[ObjectKey, Reason](), list[str]()
    waiting = [pod for pod in assigner.snapshot.state.pods.values() if waits(pod)]
    for pod in sorted(waiting, key=queue_order)[:MOST_ASKED]:
        ready = assigner.entitled(pod)
        if not isinstance(ready, Pod) or pod.key in assigner.snapshot.pods:
            continue
        answer = assigner.engine.place_on(ready, node.name, now=now)
        if isinstance(answer, Reason):
            refused[pod.key] = answer
        else:
            fitting.append(str(pod.key))
    return Asked(refused, tuple(fitting))


def opening_remedy(assigner: PodAssigner, node: Node, known: PlanInputs, *, now: Instant) -> ProvedRemedy | None:
    """The steps after which nothing keeps pods off a closed node, tried on a copy; None where there are none."""
    copy, steps = assigner.snapshot.fork(), list[Remedy]()
    trial = PodAssigner(copy, unreadable_claims=known.unreadable_claims)
    asked = ask(assigner, node, now)
    while reasons := [one for one, _ in closed(trial, copy.state.nodes[node.name], now)]:
        waiting = next((key for key, why in asked.refused.items() if why in reasons), None)
        pod = _ANYBODY if waiting is None else assigner.snapshot.state.pods[waiting]
        ready = assigner.entitled(pod)
        case = Case(
            assigner=trial,
            pod=pod,
            ready=ready if isinstance(ready, Pod) else pod,
            obstacle=Obstacle(reasons[0], example=node.name),
            now=now,
            known=known,
        )
        remedy = next(_MAKERS[reasons[0]](case), None)
        if remedy is None or any(remedy.sentence == one.sentence for one in steps):
            break
        steps.append(remedy)
        for change in remedy.changes:
            apply(copy, change)
    if not steps:
        return None
    whole = replace(
        steps[0],
        sentence="; and ".join(one.sentence for one in steps),
        commands=tuple(command for one in steps for command in one.commands),
        changes=tuple(change for one in steps for change in one.changes),
    )
    return ProvedRemedy(whole, _proof(trial, copy.state.nodes[node.name], now))


def _proof(trial: PodAssigner, node: Node, now: Instant) -> Proof:
    left = closed(trial, node, now)
    if left:
        reason, text = left[0]
        return Proof(False, f"tried on a copy: that is not enough: {reason.value}: {text}")
    asked = ask(trial, node, now)
    if asked.fitting:
        return Proof(True, f"tried on a copy: it takes {some(list(asked.fitting))} then")
    said = ", ".join(f"{count} {reason.value}" for reason, count in asked.counts.most_common())
    return Proof(True, f"tried on a copy: nothing keeps pods off it then{f'; those that wait: {said}' if said else ''}")
