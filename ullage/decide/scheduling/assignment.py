"""Assign a pod or a gang to nodes: scheduling gates, claim, gang size, quota and nominated pods are checked, then the
placement is committed.

The live scheduler and plans both decide with PodAssigner, so a plan says what the scheduler does. A placement is
assumed in the snapshot at once. The order of pods and the writes are decided elsewhere.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy

from ullage.decide.gang.attempts import largest_first
from ullage.decide.gang.membership import gang_members, gang_of, gang_size
from ullage.decide.gang.placement import GangNoFit, GangPlacement, GangRequest, place_gang
from ullage.decide.placement.engine import NoFit, Placement, PlacementEngine, device_ask, hold
from ullage.decide.placement.filters.codes import Codes
from ullage.decide.placement.obstacle import KnownObstacles, Obstacle, find_obstacle, main_reason, nearness
from ullage.decide.placement.prefilter import NOTHING_UNREADABLE, with_claim
from ullage.decide.placement.quota import QuotaTable, least_taken, quota_verdict
from ullage.decide.placement.vm_pods import may_reserve, with_vm
from ullage.decide.preemption.nominated import place_beside_nominated, place_nominated, shut
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Phase, Pod, age_order
from ullage.model.scoring import DEFAULT_POLICY
from ullage.model.units import Instant
from ullage.model.verdict import CuredBy, Reason, Verdict
from ullage.state.snapshot import ClusterSnapshot


def queue_order(pod: Pod) -> tuple[int, bool, Instant, ObjectKey]:
    """Sort key of pending pods: priority, then age, then name."""
    return -pod.priority, *age_order(pod)


def waits(pod: Pod) -> bool:
    """True if the pod is to be placed, whatever scheduler it names. Scheduling gates are checked later."""
    return not (pod.node or pod.deleting or pod.phase.over)


class PodAssigner:
    """Assigns pods to nodes on one snapshot by one policy."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        policy: str = DEFAULT_POLICY,
        unreadable_claims: Mapping[ObjectKey, str] = NOTHING_UNREADABLE,
    ) -> None:
        self.snapshot = snapshot
        self.engine = PlacementEngine(snapshot, policy)
        self.quota: QuotaTable = self.engine.quota
        self._unreadable = unreadable_claims
        self._obstacles = KnownObstacles()

    def fork(self) -> "PodAssigner":
        """Return an assigner on a fork of the snapshot. `engine.warm_up` first."""
        other = copy(self)
        other.engine = self.engine.fork()
        other.snapshot, other.quota = other.engine.snapshot, other.engine.quota
        other._obstacles = KnownObstacles()
        return other

    def beside(self, policy: str) -> "PodAssigner":
        """Return an assigner of another policy on the same snapshot. All but scores and the mix is shared."""
        other = copy(self)
        other.engine = PlacementEngine(self.snapshot, policy, beside=self.engine)
        return other

    def entitled(self, pod: Pod) -> Pod | Verdict:
        """A pending pod as it is to be placed, or the reason that no node need be filtered."""
        if pod.gated:
            return Verdict(Reason.SCHEDULING_GATED, "the pod has scheduling gates")
        if pod.device_claims:
            named = ", ".join(pod.device_claims)
            return Verdict(Reason.RESOURCE_CLAIMS, f"spec.resourceClaims ({named}) are allocated by kube-scheduler")
        ready = with_claim(pod, self.snapshot, self._unreadable)
        if isinstance(ready, Pod) and pod.vm is not None:
            ready = with_vm(ready, self.snapshot)
        gang = gang_of(pod, self.snapshot.state)
        if isinstance(ready, Verdict) or gang is None or gang_size(gang, self.snapshot.state):
            return ready
        detail = f"there is no PodGroup {gang}, and no claim of the gang has gangMinMember"
        return Verdict(Reason.GANG_SIZE_UNKNOWN, detail)

    def gang_ask(self, gang: ObjectKey, may_place: Callable[[Pod], bool] = waits) -> GangRequest:
        """The gang's request now: members that are pending and may be placed, and members that have room already."""
        state, pending, bound = self.snapshot.state, list[Pod](), list[Pod]()
        for pod in gang_members(gang, state):
            held = self.snapshot.pods.get(pod.key)
            if held is not None:
                bound += [] if pod.deleting else [held]
            elif pod.phase is Phase.SUCCEEDED:
                bound.append(pod)  # it has finished: the others are not to be evicted for its absence
            elif may_place(pod) and isinstance(ready := self.entitled(pod), Pod):
                pending.append(ready)
        pending.sort(key=queue_order)
        return GangRequest(key=gang, min_member=gang_size(gang, state), pending=tuple(pending), bound=tuple(bound))

    def closed(self, pod: Pod) -> Codes | None:
        """Rows that the quota of a pod's namespace closes to it."""
        return self.quota.closed((pod,))

    def quota_detail(self, pod: Pod) -> str:
        """Usage of the quota that refuses a pod, as text."""
        limits, ask = self.quota.limits(pod.key.namespace), device_ask(pod)
        if limits is None or ask is None:
            return ""
        verdict = quota_verdict(limits, self.quota.usage(pod.key.namespace), least_taken(ask))
        return verdict.detail or f"namespace {pod.key.namespace} may hold no more GPUs of the models that fit"

    def obstacle(self, pod: Pod, answer: NoFit | GangNoFit, *, now: Instant) -> Obstacle | None:
        """The obstacle of a pod, as it is to be placed, that was refused for these reasons; None if a node fits it.

        A gang of which some members fit waits for room for the others: the obstacle is that of the first of them.
        """
        if isinstance(answer, GangNoFit) and (answer.placed or answer.refusal is None):
            found = self._obstacle_beside(answer, now)
            reason = main_reason(answer.reasons)
            return found or (None if reason is None else Obstacle(reason, nearness(reason)))
        return self._obstacles.of(self.engine, pod, answer.reasons, now=now, closed=self.closed(pod))

    def _obstacle_beside(self, answer: GangNoFit, now: Instant) -> Obstacle | None:
        """The obstacle of the first member without a placement while those that fit have theirs; None if there is none.

        Nodes and pods may have changed since the answer: a member that has no such place any more is left out.
        """
        snapshot = self.snapshot
        if answer.refused is None or answer.refused.key in snapshot.pods:
            return None
        with snapshot.what_if():
            for pod, placement in answer.beside:
                if pod.key not in snapshot.pods and placement.node in snapshot.columns.rows:
                    hold(snapshot, pod, placement)
            return find_obstacle(self.engine, answer.refused, now=now, closed=self.closed(answer.refused))

    def why(self, pod: Pod, answer: NoFit | GangNoFit, *, now: Instant) -> tuple[str, str]:
        """Word and sentence on a pod that was refused. The first part of the sentence stays while the word does."""
        obstacle = self.obstacle(pod, answer, now=now)
        if obstacle is None:
            reason = main_reason(answer.reasons)
            obstacle = Obstacle(reason, CuredBy.ROOM if reason is None else nearness(reason))
        if isinstance(answer, GangNoFit) and answer.refusal is None:
            return obstacle.word, f"members of its gang are missing ({obstacle.word}). {answer}"
        return obstacle.word, f"{obstacle.headline} ({obstacle.word}). {answer}"

    def assign_pod(self, pod: Pod, nominated: Collection[Pod], *, now: Instant) -> Placement | NoFit:
        """The pod's placement, assumed from now on; or the reasons that no node fits."""
        answer = place_beside_nominated(self.engine, pod, nominated, now=now, closed=self.closed(pod))
        if isinstance(answer, NoFit):
            return answer
        if not self.quota.verdict([(pod, answer)]):
            return self._over_quota()
        if not may_reserve(pod, answer.node, self.snapshot):
            return NoFit(len(self.snapshot.columns.rows), {Reason.VM_INSUFFICIENT_ROOM: 1})
        self.engine.commit(pod, answer)
        return answer

    def assign_gang(self, gang: GangRequest, nominated: Iterable[Pod], *, now: Instant) -> GangPlacement | GangNoFit:
        """Placements for as many members as the gang needs at least, assumed from now on; or for none."""
        members = {pod.key for pod in gang.pending}
        others = tuple(pod for pod in nominated if pod.key not in members)
        answer = self._placed_within_quota(gang, others, now)
        if isinstance(answer, GangNoFit) and len(gang.pending) > gang.needed:
            # Members beyond the gang's minimum may exceed the quota: those follow one by one.
            smallest = tuple(largest_first(gang.pending)[-gang.needed :])
            fewest = GangRequest(key=gang.key, min_member=gang.min_member, pending=smallest, bound=gang.bound)
            answer = self._placed_within_quota(fewest, others, now)
        if isinstance(answer, GangPlacement):
            for pod in gang.pending:
                if pod.key in answer.placements:
                    self.engine.record(pod)
        return answer

    def _placed_within_quota(
        self, gang: GangRequest, nominated: Iterable[Pod], now: Instant
    ) -> GangPlacement | GangNoFit:
        needed = largest_first(gang.pending)[-gang.needed :]
        with self.snapshot.what_if() as trial:
            answer = self._placed(gang, nominated, now, self.quota.closed(needed))
            if isinstance(answer, GangNoFit):
                return answer
            placed = [(pod, answer.placements[pod.key]) for pod in gang.pending if pod.key in answer.placements]
            if self._may_hold(placed):
                trial.keep()
                return answer
        return GangNoFit(gang.key, 0, gang.needed, self._over_quota())

    def _placed(
        self, gang: GangRequest, nominated: Iterable[Pod], now: Instant, closed: Codes | None
    ) -> GangPlacement | GangNoFit:
        """Place the gang. Pods nominated to nodes count as placed meanwhile."""
        snapshot = self.snapshot
        with snapshot.what_if() as trial:
            least_important = max(gang.pending, key=queue_order, default=None)
            unsure = None
            if least_important is not None:
                unsure = place_nominated(self.engine, least_important, nominated, now=now)
                closed = shut(self.engine, least_important, unsure, closed)
            answer = place_gang(self.engine, gang, now=now, closed=closed)
            if unsure is None:
                trial.keep()
        if unsure is not None and isinstance(answer, GangPlacement):
            for pod in gang.pending:
                if pod.key in answer.placements:
                    hold(snapshot, pod, answer.placements[pod.key])
        return answer

    def _may_hold(self, placed: list[tuple[Pod, Placement]]) -> bool:
        """True if the quota allows what these pods hold. They are taken out for the check: usage includes them."""
        with self.snapshot.what_if():
            for pod, _ in placed:
                self.snapshot.forget(pod.key)
            return bool(self.quota.verdict(placed))

    def _over_quota(self) -> NoFit:
        nodes = len(self.snapshot.columns.rows)
        return NoFit(nodes, {Reason.QUOTA_EXCEEDED: nodes})
