"""Decides on every pod that waits, one after another on one picture, with what the live scheduler decides with.

Pods are taken as the queue takes them: priority, then age, then name; a gang with the first of its members. Who could
be helped by pods that came after it is asked again. Nobody is evicted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.decide.claiming import age_order, claim_of, with_claim
from ullage.decide.fit.codes import Codes
from ullage.decide.gang.attempts import largest_first
from ullage.decide.gang.seating import GangAsk, GangRefusal, GangSeats, seat_gang
from ullage.decide.preempt.nominated import seat_beside_nominated
from ullage.decide.quota import QuotaTable, least_taken, quota_verdict
from ullage.decide.score.policies import DEFAULT_POLICY
from ullage.decide.seat.deciding import Refusal, Seat, Seating, device_ask, hold
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.verdict import Reason, Verdict, Wake
from ullage.state.placements import Placements


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was found beside the picture."""

    gang_sizes: Mapping[ObjectKey, int] = field(default_factory=dict)
    """How many members each PodGroup needs."""
    unreadable_claims: Mapping[ObjectKey, str] = field(default_factory=dict)
    """GpuClaims that break a rule, with the rule."""


Turn = Pod | GangAsk
Held = Refusal | GangRefusal


def queue_order(pod: Pod) -> tuple[int, bool, float, ObjectKey]:
    """Who is asked first."""
    return -pod.priority, *age_order(pod)


def waits(pod: Pod) -> bool:
    """It is to be placed, whatever scheduler it names. Gates are looked at later."""
    return not (pod.node or pod.deleting or pod.phase.over)


def pods_of(turn: Turn) -> tuple[Pod, ...]:
    """Those a turn decides on."""
    return (turn,) if isinstance(turn, Pod) else turn.pending


class Planner:
    """Plans on placements of its own: they hold what it has planned."""

    def __init__(self, placements: Placements, known: Known, *, now: float, policy: str = DEFAULT_POLICY) -> None:
        self.placements = placements
        self.seating = Seating(placements, policy)
        self.seats: dict[ObjectKey, Seat] = {}
        """In the order they were given."""
        self.refused: dict[ObjectKey, Verdict] = {}
        """Pods about which no node need be asked."""
        self.turned_away: dict[ObjectKey, tuple[Turn, Held]] = {}
        """Pods and gangs for which there was no room, by their names."""
        self.gangs: dict[ObjectKey, GangAsk] = {}
        self.now = now
        self._known = known
        self._quota = QuotaTable(placements)
        self._nominated: tuple[Pod, ...] = ()
        self._sizes: dict[ObjectKey, int] = {}
        for claim in placements.state.claims.values():
            gang = ObjectKey(claim.key.namespace, claim.gang)
            self._sizes[gang] = max(claim.gang_min_member, self._sizes.get(gang, 0))

    def run(self, until: ObjectKey | None = None) -> None:
        """Decide on all who wait, or on those up to and including this pod."""
        turns = self._turns(until)
        self._nominated = tuple(turn for turn in turns if isinstance(turn, Pod) and turn.nominated)
        while turns:
            before = len(self.seats)
            for turn in turns:
                self._decide(turn)
            # Somebody may have waited for pods that came later; nothing else can have become better.
            again = [turn for turn, answer in self.turned_away.values() if Wake.POD_ARRIVED in answer.wakes_on]
            turns = again if len(self.seats) > before else []

    def entitled(self, pod: Pod) -> Pod | Verdict:
        """A waiting pod as it is to be placed, or why no node need be asked."""
        if pod.gated:
            return Verdict(Reason.SCHEDULING_GATED, "the pod has scheduling gates")
        ready = with_claim(pod, self.placements, self._known.unreadable_claims)
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
        return self._known.gang_sizes.get(gang) or self._sizes.get(gang, 0)

    def closed(self, pod: Pod) -> Codes | None:
        """Rows that the quota of a pod's namespace closes to it."""
        return self._quota.closed((pod,))

    def quota_detail(self, pod: Pod) -> str:
        """How much is held of the quota that refuses a pod."""
        limits, ask = self._quota.limits(pod.key.namespace), device_ask(pod)
        if limits is None or ask is None:
            return ""
        verdict = quota_verdict(limits, self._quota.usage(pod.key.namespace), least_taken(ask))
        return verdict.detail or f"namespace {pod.key.namespace} may hold no more GPUs of the models that fit"

    def _turns(self, until: ObjectKey | None) -> list[Turn]:
        turns: list[Turn] = []
        members: dict[ObjectKey, list[Pod]] = {}
        for pod in sorted(filter(waits, self.placements.state.pods.values()), key=queue_order):
            ready = self.entitled(pod)
            gang = self.gang_of(pod)
            if isinstance(ready, Verdict):
                self.refused[pod.key] = ready
            elif gang is None:
                turns.append(ready)
            else:
                members.setdefault(gang, []).append(ready)
        bound = self._bound_members() if members else {}
        for key, pending in members.items():
            ask = GangAsk(
                key=key, min_member=self.gang_size(key), pending=tuple(pending), bound=tuple(bound.get(key, ()))
            )
            self.gangs[key] = ask
            turns.append(ask)
        turns.sort(key=lambda turn: min(map(queue_order, pods_of(turn))))
        last = next((place for place, turn in enumerate(turns) if until in {pod.key for pod in pods_of(turn)}), None)
        return turns if last is None else turns[: last + 1]

    def _bound_members(self) -> dict[ObjectKey, list[Pod]]:
        found: dict[ObjectKey, list[Pod]] = {}
        for pod in sorted(self.placements.pods.values(), key=lambda pod: pod.key):
            gang = None if pod.deleting else self.gang_of(pod)
            if gang is not None:
                found.setdefault(gang, []).append(pod)
        return found

    def _decide(self, turn: Turn) -> None:
        if isinstance(turn, Pod):
            self._decide_pod(turn)
        else:
            self._decide_gang(turn)

    def _decide_pod(self, pod: Pod) -> None:
        closed = self.closed(pod)
        answer = seat_beside_nominated(self.seating, pod, self._nominated, now=self.now, closed=closed)
        if isinstance(answer, Seat) and not self._quota.verdict([(pod, answer)]):
            answer = self._over_quota()
        if isinstance(answer, Refusal):
            self.turned_away[pod.key] = pod, answer
            return
        self.turned_away.pop(pod.key, None)
        hold(self.placements, pod, answer)
        self.seats[pod.key] = answer

    def _decide_gang(self, gang: GangAsk) -> None:
        answer = self._seated_within_quota(gang)
        if isinstance(answer, GangRefusal) and len(gang.pending) > gang.needed:
            # Those beyond what it needs may be too many for the quota: the rest follow one by one.
            smallest = largest_first(gang.pending)[-gang.needed :]
            answer = self._seated_within_quota(_with_pending(gang, smallest))
        if isinstance(answer, GangRefusal):
            self.turned_away[gang.key] = gang, answer
            return
        self.turned_away.pop(gang.key, None)
        self.seats |= dict(sorted(answer.seats.items()))
        for pod in gang.pending:
            if pod.key not in answer.seats:
                self._decide_pod(pod)

    def _seated_within_quota(self, gang: GangAsk) -> GangSeats | GangRefusal:
        needed = largest_first(gang.pending)[-gang.needed :]
        with self.placements.what_if() as trial:
            answer = seat_gang(self.seating, gang, now=self.now, closed=self._quota.closed(needed))
            if isinstance(answer, GangRefusal):
                return answer
            seated = [(pod, answer.seats[pod.key]) for pod in gang.pending if pod.key in answer.seats]
            if self._may_hold(seated):
                trial.keep()
                return answer
        return GangRefusal(gang.key, 0, gang.needed, self._over_quota())

    def _may_hold(self, seated: list[tuple[Pod, Seat]]) -> bool:
        """Whether the quota allows what these hold already; beside the others, so they are taken out to ask."""
        with self.placements.what_if():
            for pod, _ in seated:
                self.placements.remove(pod.key)
            return bool(self._quota.verdict(seated))

    def _over_quota(self) -> Refusal:
        nodes = len(self.placements.columns.rows)
        return Refusal(nodes, {Reason.QUOTA_EXCEEDED: nodes})


def _with_pending(gang: GangAsk, pending: list[Pod]) -> GangAsk:
    return GangAsk(key=gang.key, min_member=gang.min_member, pending=tuple(pending), bound=gang.bound)
