"""Schedule plan: the scheduler's decision for every pending pod, in words and numbers for people and programs.

`planning` decides; this module puts the decisions in words. Nothing is read or written, and no pod is evicted.
"""

from dataclasses import dataclass, replace

from ullage.decide.explain.advice import Adviser
from ullage.decide.explain.planning import Held, PlanInputs, SchedulePlanner
from ullage.decide.explain.pod import explain_pod
from ullage.decide.explain.proof import ProvedRemedy
from ullage.decide.explain.rejections import NodeRejections, node_rejections, pod_rejection
from ullage.decide.gang.membership import gang_of
from ullage.decide.placement.engine import Placement
from ullage.decide.scheduling.assignment import queue_order
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.scoring import DEFAULT_POLICY
from ullage.model.shape import Shape
from ullage.model.units import Instant
from ullage.model.verdict import Reason
from ullage.state.snapshot import ClusterSnapshot

MOST_ENDINGS = 16
"""Shapes for which to search for pods whose end would make room: each search is a preemption over all nodes."""
MOST_PROVED = 16
"""Kinds of pods whose advice is tried on copies of the cluster."""


@dataclass(frozen=True, slots=True)
class PlannedPlacement:
    """A pod that gets a placement."""

    pod: ObjectKey
    placement: Placement


@dataclass(frozen=True, slots=True)
class UnschedulablePod:
    """A pod that gets no placement."""

    pod: ObjectKey
    rejections: tuple[NodeRejections, ...]
    """Rejections by nodes, that of the obstacle first."""
    steps: tuple[str, ...]
    reason: str = ""
    """The obstacle in one word."""
    why: str = ""
    """The obstacle in a sentence without numbers; empty where the rejection of all nodes says it."""
    remedies: tuple[ProvedRemedy, ...] = ()
    """Steps that were tried on a copy of the cluster, for a pod of this kind."""
    tried_for: ObjectKey | None = None
    """Pod they were tried for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlan:
    """Outcome for one gang."""

    gang: ObjectKey
    min_member: int
    members: tuple[ObjectKey, ...]
    """Members that are pending, and those on nodes already."""
    bound: int
    placed: int
    detail: str = ""
    """Reason that none of the pending members is placed, if none is."""


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """Placements in the order they were decided, pods that cannot be scheduled, and gangs."""

    placements: tuple[PlannedPlacement, ...]
    unschedulable: tuple[UnschedulablePod, ...]
    gangs: tuple[GangPlan, ...]


def plan_schedule(
    snapshot: ClusterSnapshot, known: PlanInputs, *, now: Instant, policy: str = DEFAULT_POLICY, prove: bool = False
) -> SchedulePlan:
    """The plan for all pending pods. The snapshot holds the planned pods afterwards.

    With `prove` advice is tried on copies of the cluster as it is before: pods ahead in the queue take what they take.
    """
    before = snapshot.fork() if prove else None
    planner = SchedulePlanner(snapshot, known, now=now, policy=policy)
    planner.run()
    plan = plan_in_words(planner)
    if before is None:
        return plan
    trials = _Trials(planner, before, policy)
    return replace(plan, unschedulable=tuple(map(trials.with_remedies, plan.unschedulable)))


def plan_in_words(planner: SchedulePlanner) -> SchedulePlan:
    """Plan in words. Rejections are computed at the end, with all planned pods placed."""
    placed = tuple(PlannedPlacement(key, placement) for key, placement in planner.placements.items())
    return SchedulePlan(placed, tuple(_PlanWords(planner).unplaced()), tuple(_gangs(planner)))


class _Trials:
    """Tries advice for one pod of each kind: members of a gang are one, as are pods alike that wait for one reason."""

    def __init__(self, planner: SchedulePlanner, before: ClusterSnapshot, policy: str) -> None:
        self._planner = planner
        self._before = before
        self._policy = policy
        self._known: dict[tuple[object, ...], UnschedulablePod] = {}

    def with_remedies(self, one: UnschedulablePod) -> UnschedulablePod:
        """The same with advice that was tried; as it is, where there are too many kinds."""
        pod = self._before.state.pods[one.pod]
        gang = gang_of(pod, self._planner.assigner.snapshot.state)
        own = (pod.claim, pod.claim_template, pod.shape, pod.priority, pod.gated)
        kind = (pod.key.namespace, one.reason, gang or own)
        if kind not in self._known and len(self._known) < MOST_PROVED:
            inputs, now = self._planner.inputs, self._planner.now
            said = explain_pod(self._before, pod, inputs, now=now, policy=self._policy, every=True)
            self._known[kind] = replace(one, steps=said.steps, remedies=said.remedies, tried_for=pod.key)
        tried = self._known.get(kind, one)
        return replace(one, steps=tried.steps, remedies=tried.remedies, tried_for=tried.tried_for)


class _PlanWords:
    """Puts refusals in words; pods of one shape get the same."""

    def __init__(self, planner: SchedulePlanner) -> None:
        self._planner = planner
        self._pods = planner.snapshot.state.pods
        self._nodes = len(planner.snapshot.columns.rows)
        self._advice = Adviser(planner.assigner, now=planner.now)
        self._known: dict[tuple[Shape, str], tuple[tuple[NodeRejections, ...], tuple[str, ...]]] = {}

    def unplaced(self) -> list[UnschedulablePod]:
        found: list[UnschedulablePod] = []
        for key, verdict in self._planner.refused.items():
            rejection = pod_rejection(verdict, self._nodes)
            steps = self._advice.steps(self._pods[key], (rejection,))
            found.append(UnschedulablePod(key, (rejection,), steps, verdict.reason.value))
        for turn, answer in self._planner.turned_away.values():
            if isinstance(turn, Pod):
                found.append(self._unplaced_pod(turn, answer))
            else:
                found += [self._member(pod, answer) for pod in turn.pending]
        return sorted(found, key=lambda one: queue_order(self._pods[one.pod]))

    def _unplaced_pod(self, pod: Pod, answer: Held) -> UnschedulablePod:
        obstacle = self._planner.assigner.obstacle(pod, answer, now=self._planner.now)
        rejections, steps = self._why(pod, answer)
        if obstacle is None or obstacle.reason is None:
            return UnschedulablePod(pod.key, rejections, steps)
        ordered = sorted(rejections, key=lambda one: one.reason is not obstacle.reason)
        why = f"{obstacle.headline} ({obstacle.word})"
        return UnschedulablePod(pod.key, tuple(ordered), steps, obstacle.word, why)

    def _why(self, pod: Pod, answer: Held) -> tuple[tuple[NodeRejections, ...], tuple[str, ...]]:
        kind = (pod.shape, pod.key.namespace)
        known = self._known.get(kind)
        if known is not None and not self._planner.snapshot.placed.refusals.about(pod):
            return known
        planner = self._planner
        closed = planner.assigner.closed(pod)
        found = node_rejections(
            planner.assigner.engine, pod, now=planner.now, closed=closed, why_closed=planner.assigner.quota_detail(pod)
        )
        found = found or _counted(answer)
        steps = self._advice.steps(pod, found, endings=len(self._known) < MOST_ENDINGS)
        known = self._known[kind] = tuple(found), steps
        return known

    def _member(self, pod: Pod, answer: Held) -> UnschedulablePod:
        """A member is refused for the reason its gang is."""
        whole = NodeRejections(Reason.GANG_INCOMPLETE, self._nodes, "", str(answer))
        others = [rejection for rejection in _counted(answer) if rejection.reason is not whole.reason]
        word, why = self._planner.assigner.why(pod, answer, now=self._planner.now)
        steps = self._advice.steps(pod, (whole,), endings=False)
        return UnschedulablePod(pod.key, (whole, *others), steps, word, why.partition(". ")[0])


def _counted(answer: Held) -> list[NodeRejections]:
    return [NodeRejections(reason, count) for reason, count in answer.reasons.items()]


def _gangs(planner: SchedulePlanner) -> list[GangPlan]:
    plans = []
    for key, gang in sorted(planner.gangs.items()):
        turned_away = planner.turned_away.get(key)
        plans.append(
            GangPlan(
                gang=key,
                min_member=gang.min_member,
                members=tuple(sorted(pod.key for pod in (*gang.pending, *gang.bound))),
                bound=len(gang.bound),
                placed=sum(pod.key in planner.placements for pod in gang.pending),
                detail="" if turned_away is None else str(turned_away[1]),
            )
        )
    return plans
