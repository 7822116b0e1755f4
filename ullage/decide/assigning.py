"""Gives pods and gangs their seats, one turn at a time: gates, claims, gangs, quotas and nominations brought together.

The live scheduler and plans decide with this: what one would do, the other does. A seat that is given holds room in the
picture from then on; who is asked when, and what is written, is not said here.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from ullage.decide.claiming import NOTHING_UNREADABLE, age_order, claim_of, with_claim
from ullage.decide.fit.codes import Codes
from ullage.decide.gang.attempts import largest_first
from ullage.decide.gang.seating import GangAsk, GangRefusal, GangSeats, seat_gang
from ullage.decide.preempt.nominated import place_nominated, seat_beside_nominated
from ullage.decide.quota import QuotaTable, least_taken, quota_verdict
from ullage.decide.score.policies import DEFAULT_POLICY
from ullage.decide.seat.deciding import Refusal, Seat, Seating, device_ask, hold
from ullage.model.event import ObjectKey
from ullage.model.pod import Phase, Pod
from ullage.model.verdict import Reason, Verdict
from ullage.state.placements import Placements


def queue_order(pod: Pod) -> tuple[int, bool, float, ObjectKey]:
    """Who is asked first: priority, then age, then name."""
    return -pod.priority, *age_order(pod)


def waits(pod: Pod) -> bool:
    """It is to be placed, whatever scheduler it names. Gates are looked at later."""
    return not (pod.node or pod.deleting or pod.phase.over)


class Assigner:
    """Assigns seats on one picture of the cluster by one policy."""

    def __init__(
        self,
        placements: Placements,
        policy: str = DEFAULT_POLICY,
        unreadable_claims: Mapping[ObjectKey, str] = NOTHING_UNREADABLE,
    ) -> None:
        self.placements = placements
        self.seating = Seating(placements, policy)
        self.quota = QuotaTable(placements)
        self._unreadable = unreadable_claims

    def entitled(self, pod: Pod) -> Pod | Verdict:
        """A waiting pod as it is to be placed, or why no node need be asked."""
        if pod.gated:
            return Verdict(Reason.SCHEDULING_GATED, "the pod has scheduling gates")
        if pod.device_claims:
            named = ", ".join(pod.device_claims)
            return Verdict(Reason.RESOURCE_CLAIMS, f"spec.resourceClaims ({named}) are allocated by kube-scheduler")
        ready = with_claim(pod, self.placements, self._unreadable)
        gang = self.gang_of(pod)
        if isinstance(ready, Verdict) or gang is None or self.gang_size(gang):
            return ready
        detail = f"there is no PodGroup {gang}, and no claim of the gang has gangMinMember"
        return Verdict(Reason.GANG_SIZE_UNKNOWN, detail)

    def gang_of(self, pod: Pod) -> ObjectKey | None:
        """The gang a pod's claim says it belongs to."""
        claim = claim_of(pod, self.placements.state)
        return ObjectKey(pod.key.namespace, claim.gang) if claim is not None and claim.gang else None

    def gang_size(self, gang: ObjectKey) -> int:
        """How many members it needs: by its PodGroup, else by its claims; 0 where neither says."""
        group = self.placements.state.groups.get(gang)
        if group is not None:
            return group.min_member
        return max((claim.gang_min_member for claim in self.placements.state.claims_of_gang(gang)), default=0)

    def members(self, gang: ObjectKey) -> list[Pod]:
        """Every pod of a gang, by name."""
        state = self.placements.state
        found: dict[ObjectKey, Pod] = {}
        for claim in state.claims_of_gang(gang):
            copied_for = state.pods.get(ObjectKey(claim.key.namespace, claim.pod)) if claim.pod else None
            named_by = (*state.pods_naming(claim.key), *state.pods_from_template(claim.key))
            for pod in named_by if copied_for is None else (*named_by, copied_for):
                if self.gang_of(pod) == gang:
                    found[pod.key] = pod
        return [found[key] for key in sorted(found)]

    def gang_ask(self, gang: ObjectKey, may_place: Callable[[Pod], bool] = waits) -> GangAsk:
        """What a gang wants now: those who wait and may be placed, and those who have room already."""
        pending: list[Pod] = []
        bound: list[Pod] = []
        for pod in self.members(gang):
            held = self.placements.pods.get(pod.key)
            if held is not None:
                bound += [] if pod.deleting else [held]
            elif pod.phase is Phase.SUCCEEDED:
                bound.append(pod)  # it has done its part: the others are not to be ended for its going
            elif may_place(pod) and isinstance(ready := self.entitled(pod), Pod):
                pending.append(ready)
        pending.sort(key=queue_order)
        return GangAsk(key=gang, min_member=self.gang_size(gang), pending=tuple(pending), bound=tuple(bound))

    def closed(self, pod: Pod) -> Codes | None:
        """Rows that the quota of a pod's namespace closes to it."""
        return self.quota.closed((pod,))

    def quota_detail(self, pod: Pod) -> str:
        """How much is held of the quota that refuses a pod."""
        limits, ask = self.quota.limits(pod.key.namespace), device_ask(pod)
        if limits is None or ask is None:
            return ""
        verdict = quota_verdict(limits, self.quota.usage(pod.key.namespace), least_taken(ask))
        return verdict.detail or f"namespace {pod.key.namespace} may hold no more GPUs of the models that fit"

    def assign_pod(self, pod: Pod, nominated: Collection[Pod], *, now: float) -> Seat | Refusal:
        """The pod's seat, which it holds from now on; or why it gets none."""
        answer = seat_beside_nominated(self.seating, pod, nominated, now=now, closed=self.closed(pod))
        if isinstance(answer, Refusal):
            return answer
        if not self.quota.verdict([(pod, answer)]):
            return self._over_quota()
        hold(self.placements, pod, answer)
        return answer

    def assign_gang(self, gang: GangAsk, nominated: Iterable[Pod], *, now: float) -> GangSeats | GangRefusal:
        """Seats for as many members as the gang needs at least, held from now on; or for nobody."""
        members = {pod.key for pod in gang.pending}
        others = tuple(pod for pod in nominated if pod.key not in members)
        answer = self._seated_within_quota(gang, others, now)
        if isinstance(answer, GangRefusal) and len(gang.pending) > gang.needed:
            # Those beyond what it needs may be too many for the quota: the rest follow one by one.
            smallest = tuple(largest_first(gang.pending)[-gang.needed :])
            fewest = GangAsk(key=gang.key, min_member=gang.min_member, pending=smallest, bound=gang.bound)
            answer = self._seated_within_quota(fewest, others, now)
        return answer

    def _seated_within_quota(self, gang: GangAsk, nominated: Iterable[Pod], now: float) -> GangSeats | GangRefusal:
        needed = largest_first(gang.pending)[-gang.needed :]
        with self.placements.what_if() as trial:
            answer = self._seated(gang, nominated, now, self.quota.closed(needed))
            if isinstance(answer, GangRefusal):
                return answer
            seated = [(pod, answer.seats[pod.key]) for pod in gang.pending if pod.key in answer.seats]
            if self._may_hold(seated):
                trial.keep()
                return answer
        return GangRefusal(gang.key, 0, gang.needed, self._over_quota())

    def _seated(
        self, gang: GangAsk, nominated: Iterable[Pod], now: float, closed: Codes | None
    ) -> GangSeats | GangRefusal:
        """Beside those for whom nodes are being made free, who count as placed while seats are looked for."""
        placements = self.placements
        with placements.what_if() as trial:
            least_important = max(gang.pending, key=queue_order, default=None)
            beside = least_important is not None and place_nominated(self.seating, least_important, nominated, now=now)
            answer = seat_gang(self.seating, gang, now=now, closed=closed)
            if not beside:
                trial.keep()
        if beside and isinstance(answer, GangSeats):
            for pod in gang.pending:
                if pod.key in answer.seats:
                    hold(placements, pod, answer.seats[pod.key])
        return answer

    def _may_hold(self, seated: list[tuple[Pod, Seat]]) -> bool:
        """Whether the quota allows what these hold already; beside the others, so they are taken out to ask."""
        with self.placements.what_if():
            for pod, _ in seated:
                self.placements.remove(pod.key)
            return bool(self.quota.verdict(seated))

    def _over_quota(self) -> Refusal:
        nodes = len(self.placements.columns.rows)
        return Refusal(nodes, {Reason.QUOTA_EXCEEDED: nodes})
