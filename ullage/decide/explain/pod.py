"""Explanation of one pod: every node's verdict, the outcome, and next steps."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.decide.explain.advice import Adviser
from ullage.decide.explain.plan_schedule import plan_in_words
from ullage.decide.explain.planning import PlanInputs, SchedulePlanner
from ullage.decide.explain.rejections import NodeRejections, pod_rejection, rejections_of
from ullage.decide.placement.engine import Placement
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.scoring import DEFAULT_POLICY
from ullage.model.verdict import Reason, Verdict
from ullage.state.snapshot import ClusterSnapshot


class ExplainedState(StrEnum):
    """Verdicts on a pod that are not a `Reason` about the pod itself."""

    FITS = "Fits"
    UNSCHEDULABLE = "Unschedulable"
    BOUND = "Bound"
    FINISHED = "Finished"
    NOT_BOUND = "NotBound"
    """The pod fits, and its scheduler could not bind it."""
    LEAVING = "Leaving"
    """The pod is being deleted and never got a node."""


_RIGHTS = (
    "give the scheduler's user what the message says is missing: a role, or its name in the --identity of "
    "`ullage webhook`",
)


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """Verdict on one pod, every node's answer, and next steps."""

    pod: ObjectKey
    verdict: str
    """An `ExplainedState`, or the reason that holds on every node."""
    message: str
    nodes: dict[str, Verdict]
    rejections: tuple[NodeRejections, ...]
    steps: tuple[str, ...]


def explain_pod(
    snapshot: ClusterSnapshot, pod: Pod, known: PlanInputs, *, now: float, policy: str = DEFAULT_POLICY
) -> PodExplanation:
    """Nodes are filtered as they are, before other pending pods are placed; the message says what the queue changes."""
    planner = SchedulePlanner(snapshot, known, now=now, policy=policy)
    if pod.phase.over:
        return _silent(pod, ExplainedState.FINISHED, f"it has {pod.phase.value.lower()} and holds nothing")
    if pod.node:
        return _bound(planner, pod)
    if pod.deleting:
        return _silent(pod, ExplainedState.LEAVING, "it is being deleted and gets no node any more")
    ready = planner.assigner.entitled(pod)
    return _barred(planner, pod, ready) if isinstance(ready, Verdict) else _waiting(planner, ready)


def _waiting(planner: SchedulePlanner, pod: Pod) -> PodExplanation:
    nodes = _asked(planner, pod)
    found = tuple(rejections_of(nodes))
    fitting = sum(map(bool, nodes.values()))
    if not fitting:
        steps = Adviser(planner.assigner.engine, now=planner.now).steps(pod, found)
        why = ", ".join(f"{rejection.nodes} {rejection.reason}" for rejection in found) or "there are no nodes"
        return PodExplanation(
            pod.key, ExplainedState.UNSCHEDULABLE, f"0/{len(nodes)} nodes fit: {why}", nodes, found, steps
        )
    message = f"{fitting} of {len(nodes)} nodes fit"
    with planner.snapshot.what_if():
        planner.run(until=pod.key)
        placement = planner.placements.get(pod.key)
        missed = None if placement is not None else _missed(planner, pod)
    if missed is not None:
        why, steps = missed
        return PodExplanation(
            pod.key, ExplainedState.UNSCHEDULABLE, f"{message} as things are; {why}", nodes, found, steps
        )
    if pod.bind_error:
        why = f"{message}, but its scheduler could not place it: {pod.bind_error}"
        return PodExplanation(pod.key, ExplainedState.NOT_BOUND, why, nodes, found, _RIGHTS if _denied(pod) else ())
    return PodExplanation(pod.key, ExplainedState.FITS, f"{message}; it goes to {_spoken(placement)}", nodes, found, ())


def _denied(pod: Pod) -> bool:
    """True if the API server refused the bind as not allowed, by its own text."""
    return "forbidden" in pod.bind_error or "denied the request" in pod.bind_error


def _asked(planner: SchedulePlanner, pod: Pod) -> dict[str, Verdict]:
    """Every node's verdict, the quota of the pod's namespace included."""
    nodes = planner.assigner.engine.explain(pod, now=planner.now)
    closed = planner.assigner.closed(pod)
    if closed is None:
        return nodes
    detail, rows = planner.assigner.quota_detail(pod), planner.snapshot.columns.rows
    refused = Verdict(Reason.QUOTA_EXCEEDED, detail)
    return {name: refused if verdict and closed[rows[name]] else verdict for name, verdict in nodes.items()}


def _missed(planner: SchedulePlanner, pod: Pod) -> tuple[str, tuple[str, ...]]:
    """Reason that a pod that fits gets no placement, and next steps: pods ahead of it in the queue, or its gang."""
    steps = next((one.steps for one in plan_in_words(planner).unschedulable if one.pod == pod.key), ())
    gang = planner.assigner.gang_of(pod)
    _, answer = planner.turned_away[pod.key if gang is None or pod.key in planner.turned_away else gang]
    return (str(answer) if gang is not None else f"with those ahead of it in the queue, {answer}"), steps


def _spoken(placement: Placement | None) -> str:
    if placement is None:
        return "no node"
    gpus = (
        f" with GPU {','.join(map(str, placement.choice.ids))}"
        if placement.choice is not None and placement.choice.ids
        else ""
    )
    return f"{placement.node}{gpus}"


def _silent(pod: Pod, word: ExplainedState, message: str) -> PodExplanation:
    return PodExplanation(pod.key, word, message, {}, (), ())


def _bound(planner: SchedulePlanner, pod: Pod) -> PodExplanation:
    """Node of a bound pod, and the nodes' verdicts if the pod were placed now."""
    snapshot = planner.snapshot
    held = snapshot.pods.get(pod.key, pod)
    with snapshot.what_if():
        snapshot.remove(pod.key)
        nodes = planner.assigner.engine.explain(held, now=planner.now)
    gpus = f" with GPU {','.join(map(str, held.gpu_ids))}" if held.gpu_ids else ""
    counted = " with GPUs its node chose" if not gpus and GPU in dict(held.shape.requests) else ""
    message = f"it is on {pod.node}{gpus}{counted}"
    return PodExplanation(pod.key, ExplainedState.BOUND, message, nodes, tuple(rejections_of(nodes)), ())


def _barred(planner: SchedulePlanner, pod: Pod, verdict: Verdict) -> PodExplanation:
    """Explanation by a reason about the pod itself: every node has the same verdict."""
    nodes = dict.fromkeys(sorted(planner.snapshot.state.nodes), verdict)
    rejection = pod_rejection(verdict, len(nodes))
    steps = Adviser(planner.assigner.engine, now=planner.now).steps(pod, (rejection,))
    return PodExplanation(pod.key, verdict.reason, verdict.detail, nodes, (rejection,), steps)
