"""Explanation of one pod: the obstacle, every node's verdict, and remedies that were tried on a copy."""

from dataclasses import dataclass, replace
from enum import StrEnum

from ullage.decide.explain.advice import Adviser
from ullage.decide.explain.planning import PlanInputs, SchedulePlanner
from ullage.decide.explain.proof import ProvedRemedy, proved
from ullage.decide.explain.rejections import NodeRejections, pod_rejection, rejections_of
from ullage.decide.explain.remedies import OF_REASON, remedies
from ullage.decide.explain.remedy import Case, Remedy, recreate
from ullage.decide.gang.membership import gang_of
from ullage.decide.gang.placement import GangNoFit
from ullage.decide.placement.engine import NoFit, Placement
from ullage.decide.placement.obstacle import Obstacle, main_reason, nearness
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.scoring import DEFAULT_POLICY, DEFAULT_SCHEDULER
from ullage.model.units import Instant
from ullage.model.verdict import CuredBy, Reason, Verdict
from ullage.state.snapshot import ClusterSnapshot

KUBE_SCHEDULER = "default-scheduler"


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
    OTHER_SCHEDULER = "OtherScheduler"
    """The pod names a scheduler that is not ours."""
    NOBODY_LEADS = "NobodyLeads"
    """The pod fits, and no scheduler of ours decides."""
    BEHIND_OTHERS = "BehindOthers"
    """The pod fits, and pods ahead of it in the queue take the room."""


_RIGHTS = (
    "give the scheduler's user what the message says is missing: a role, or its name in the --identity of "
    "`ullage webhook`",
)


_START = Remedy(
    sentence="start the scheduler: `ullage check` says what is missing",
    commands=("ullage check", "kubectl -n ullage-system get pods,leases"),
)


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """Verdict on one pod, every node's answer, and next steps."""

    pod: ObjectKey
    verdict: str
    """An `ExplainedState`, or the reason that holds on every node."""
    message: str
    """Its first sentence names the obstacle."""
    nodes: dict[str, Verdict]
    rejections: tuple[NodeRejections, ...]
    steps: tuple[str, ...]
    reason: str = ""
    """The obstacle in one word, as in the metric, the Event and the dashboard; empty where there is none."""
    remedies: tuple[ProvedRemedy, ...] = ()
    """Remedies that were tried on a copy of the cluster, those that work first."""


def explain_pod(
    snapshot: ClusterSnapshot,
    pod: Pod,
    known: PlanInputs,
    *,
    now: Instant,
    policy: str = DEFAULT_POLICY,
    every: bool = False,
) -> PodExplanation:
    """Nodes are filtered as they are, before other pending pods are placed; the message says what the queue changes.

    With `every` all remedies are tried on a copy, not only until one works.
    """
    planner = SchedulePlanner(snapshot, known, now=now, policy=policy)
    if pod.phase.over:
        return _silent(pod, ExplainedState.FINISHED, f"it has {pod.phase.value.lower()} and holds nothing")
    if pod.node:
        return _bound(planner, pod)
    if pod.deleting:
        return _silent(pod, ExplainedState.LEAVING, "it is being deleted and gets no node any more")
    foreign = known.schedulers and pod.scheduler not in known.schedulers
    if foreign or (pod.device_claims and pod.scheduler == KUBE_SCHEDULER):
        return _of_another_scheduler(planner, pod, every=every)
    return _Waiting(planner, pod, every=every).explained()


class _Waiting:
    """Explanation of a pod that waits."""

    def __init__(self, planner: SchedulePlanner, pod: Pod, *, every: bool) -> None:
        self._planner = planner
        self._assigner = planner.assigner
        self._pod = pod
        self._every = every
        self._nodes: dict[str, Verdict] = {}
        self._found: tuple[NodeRejections, ...] = ()

    def explained(self) -> PodExplanation:
        ready = self._assigner.entitled(self._pod)
        return self._barred(ready) if isinstance(ready, Verdict) else self._asking(ready)

    def _asking(self, ready: Pod) -> PodExplanation:
        self._nodes = _asked(self._planner, ready)
        self._found = tuple(rejections_of(self._nodes))
        fitting = sum(map(bool, self._nodes.values()))
        refusal = self._refusal(ready)
        if refusal is not None:
            obstacle, message = refusal
            return self._with_remedies(ExplainedState.UNSCHEDULABLE, message, ready, obstacle)
        return self._fitting(ready, f"{fitting} of {len(self._nodes)} nodes fit")

    def _refusal(self, ready: Pod) -> tuple[Obstacle, str] | None:
        """The obstacle as things are, before the queue, and the sentence on it; None if the pod or its gang fits."""
        gang, now = gang_of(self._pod, self._assigner.snapshot.state), self._planner.now
        answer: object
        with self._planner.snapshot.what_if():
            if gang is None:
                answer = self._assigner.assign_pod(ready, (), now=now)
            else:
                answer = self._assigner.assign_gang(self._assigner.gang_ask(gang), (), now=now)
        if not isinstance(answer, NoFit | GangNoFit):
            return None
        obstacle = self._assigner.obstacle(ready, answer, now=now)
        if obstacle is None:
            reason = main_reason(answer.reasons)
            obstacle = Obstacle(reason, CuredBy.ROOM if reason is None else nearness(reason))
        return obstacle, self._assigner.why(ready, answer, now=now)[1]

    def _fitting(self, ready: Pod, message: str) -> PodExplanation:
        """The pod fits as things are: the queue, its scheduler or the API server may still be in its way."""
        planner, pod = self._planner, self._pod
        with planner.snapshot.what_if():
            planner.run(until=pod.key)
            placement = planner.placements.get(pod.key)
            behind = None if placement is not None else self._behind(ready)
        if behind is not None:
            obstacle, detail = behind
            why = (
                f"pods ahead of it in the queue take the room ({ExplainedState.BEHIND_OTHERS}). {message} as things are"
            )
            said = self._with_remedies(
                ExplainedState.UNSCHEDULABLE, f"{why}; with those ahead of it, {detail}", ready, obstacle
            )
            return replace(said, reason=ExplainedState.BEHIND_OTHERS)
        if pod.bind_error:
            why = f"its scheduler could not place it ({ExplainedState.NOT_BOUND}): {pod.bind_error}. {message}"
            return self._plain(ExplainedState.NOT_BOUND, why, _RIGHTS if _denied(pod) else ())
        if planner.inputs.nobody_leads:
            why = f"no scheduler decides ({ExplainedState.NOBODY_LEADS}): {planner.inputs.nobody_leads}. {message}"
            said = self._plain(ExplainedState.NOBODY_LEADS, why, (_START.sentence,))
            return replace(said, remedies=proved(self._case(ready, Obstacle(None)), (_START,)))
        return self._plain(ExplainedState.FITS, f"{message}; it goes to {_spoken(placement)}")

    def _plain(self, state: ExplainedState, message: str, steps: tuple[str, ...] = ()) -> PodExplanation:
        """Explanation of a pod that fits."""
        word = "" if state is ExplainedState.FITS else state.value
        return PodExplanation(self._pod.key, state, message, self._nodes, self._found, steps, word)

    def _behind(self, ready: Pod) -> tuple[Obstacle, str]:
        """Obstacle of the pod once those ahead of it are placed. Inside the what-if that holds them."""
        planner, gang = self._planner, gang_of(self._pod, self._assigner.snapshot.state)
        _, answer = planner.turned_away[ready.key if gang is None or ready.key in planner.turned_away else gang]
        obstacle = self._assigner.obstacle(ready, answer, now=planner.now)
        reason = main_reason(answer.reasons)
        found = obstacle or Obstacle(reason, CuredBy.ROOM if reason is None else nearness(reason))
        return found, str(answer)

    def _barred(self, verdict: Verdict) -> PodExplanation:
        """Explanation by a reason about the pod itself: every node has the same verdict."""
        self._nodes = dict.fromkeys(sorted(self._planner.snapshot.state.nodes), verdict)
        self._found = (pod_rejection(verdict, len(self._nodes)),)
        obstacle = Obstacle(verdict.reason, nearness(verdict.reason))
        return self._with_remedies(verdict.reason, verdict.detail, self._pod, obstacle)

    def _with_remedies(self, verdict: str, message: str, ready: Pod, obstacle: Obstacle) -> PodExplanation:
        case = self._case(ready, obstacle, message)
        tried = proved(case, remedies(case), every=self._every)
        steps = tuple(one.remedy.sentence for one in tried)
        without_own = obstacle.reason is not None and obstacle.reason not in OF_REASON
        if without_own or not any(one.proof.works for one in tried):
            own = [rejection for rejection in self._found if rejection.reason is obstacle.reason]
            advice = Adviser(self._assigner, now=self._planner.now).steps(ready, own or self._found)
            steps = (*advice, *steps) if without_own else (*steps, *advice)
        steps = tuple(dict.fromkeys(steps))
        return PodExplanation(
            self._pod.key, verdict, message, self._nodes, self._found, steps, obstacle.word, remedies=tried
        )

    def _case(self, ready: Pod, obstacle: Obstacle, detail: str = "") -> Case:
        return Case(
            assigner=self._assigner,
            pod=self._pod,
            ready=ready,
            obstacle=obstacle,
            now=self._planner.now,
            known=self._planner.inputs,
            detail=detail,
        )


def _of_another_scheduler(planner: SchedulePlanner, pod: Pod, *, every: bool) -> PodExplanation:
    """The pod is another scheduler's to place: what our rules say of it is told beside."""
    ours = min(planner.inputs.schedulers, default=DEFAULT_SCHEDULER)
    why = f"it names {pod.scheduler} in spec.schedulerName, which is not ours ({ExplainedState.OTHER_SCHEDULER})"
    said = _Waiting(planner, pod, every=every).explained()
    beside = "by our rules it would fit" if said.verdict == ExplainedState.FITS else f"by our rules: {said.message}"
    if pod.device_claims:
        asked = f"kube-scheduler allocates its ResourceClaims ({', '.join(pod.device_claims)}); ask it"
        steps: tuple[str, ...] = (f"{asked}: kubectl -n {pod.key.namespace} describe pod {pod.key.name}",)
        return PodExplanation(
            pod.key, ExplainedState.OTHER_SCHEDULER, f"{why}. {asked}", {}, (), steps, ExplainedState.OTHER_SCHEDULER
        )
    remedy = Remedy(
        sentence=f"set spec.schedulerName to {ours}, or ask {pod.scheduler}: "
        f"kubectl -n {pod.key.namespace} describe pod {pod.key.name}",
        commands=recreate(pod, "spec.schedulerName"),
    )
    case = Case(
        assigner=planner.assigner, pod=pod, ready=pod, obstacle=Obstacle(None), now=planner.now, known=planner.inputs
    )
    remedy = Remedy(sentence=remedy.sentence, commands=remedy.commands, changes=case.with_pod(scheduler=ours))
    tried = proved(case, (remedy,))
    steps = (remedy.sentence, *said.steps)
    return PodExplanation(
        pod.key,
        ExplainedState.OTHER_SCHEDULER,
        f"{why}. {beside}",
        said.nodes,
        said.rejections,
        steps,
        ExplainedState.OTHER_SCHEDULER,
        (*tried, *said.remedies),
    )


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
        snapshot.forget(pod.key)
        nodes = planner.assigner.engine.explain(held, now=planner.now)
    gpus = f" with GPU {','.join(map(str, held.gpu_ids))}" if held.gpu_ids else ""
    counted = " with GPUs its node chose" if not gpus and GPU in dict(held.shape.requests) else ""
    message = f"it is on {pod.node}{gpus}{counted}"
    return PodExplanation(pod.key, ExplainedState.BOUND, message, nodes, tuple(rejections_of(nodes)), ())
