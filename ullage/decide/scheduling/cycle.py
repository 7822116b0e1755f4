"""SchedulingCycle: one decision per turn, for a single pod or for a gang with the first of its members. No I/O.

A decision counts at once: placements are assumed in the snapshot, refused pods wait for a ClusterEvent that can help
them, and victims are no longer counted as staying.
"""

from collections.abc import Mapping, Sequence

from ullage.decide.gang.placement import GangNoFit, GangPlacement, GangRequest
from ullage.decide.gang.timeout import EvictPartialGang, GangBacksOff, GangComplete
from ullage.decide.placement.claiming import claim_key
from ullage.decide.placement.engine import NoFit as NoSeat
from ullage.decide.placement.engine import Placement
from ullage.decide.placement.filters.first_consumer import promises, waiting_claims
from ullage.decide.placement.hopeless import hopeless_reason, is_hopeless
from ullage.decide.preemption.preempt import NoPreemption, NoPreemptionReason
from ullage.decide.scheduling.assignment import PodAssigner, waits
from ullage.decide.scheduling.decisions import Decision, PodsUnschedulable
from ullage.decide.scheduling.gang_tracker import GangInBackoff, GangTracker
from ullage.decide.scheduling.nominator import Nominator
from ullage.model.action import BindGang, BindPod, EvictGang, Preempt, Victim
from ullage.model.device import MILLI_GPU
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.refusal import SchedulingFailure
from ullage.model.verdict import CURES, Reason, Verdict
from ullage.state.external_leases import ExternalLeases
from ullage.state.queue import SchedulingQueue
from ullage.state.snapshot import ClusterSnapshot


class SchedulingCycle:
    """Decides for one scheduler. `profiles` are policies by scheduler name."""

    def __init__(
        self, profiles: Mapping[str, str], placements: ClusterSnapshot, queue: SchedulingQueue, foreign: ExternalLeases
    ) -> None:
        self.gangs = GangTracker()
        self.room = Nominator(placements)
        self._placements = placements
        self._queue = queue
        self._foreign = foreign
        by_policy = {policy: PodAssigner(placements, policy) for policy in dict.fromkeys(profiles.values())}
        self._assigners = {name: by_policy[policy] for name, policy in profiles.items()}
        self._policies = dict(profiles)
        self.assigner = self._assigners[next(iter(profiles))]
        """Any of the assigners, for questions whose answer depends on no policy."""

    def use_policies(self, profiles: Mapping[str, str]) -> None:
        """Decide by other policies from now on. Names that are not served yet, or no longer, need a restart."""
        changed = {name: profiles[name] for name in self._policies if name in profiles}
        by_policy = {policy: self._assigners[name] for name, policy in self._policies.items()}
        for name, policy in changed.items():
            if policy not in by_policy:
                by_policy[policy] = PodAssigner(self._placements, policy)
            self._assigners[name], self._policies[name] = by_policy[policy], policy

    def ours(self, pod: Pod) -> bool:
        """True if the pod waits for this scheduler to place it."""
        return pod.scheduler in self._assigners and waits(pod) and not pod.gated

    def decide(self, pod: Pod, *, now: float) -> Decision:
        """Decide on one pod."""
        assigner = self._assigners[pod.scheduler]
        ready = assigner.entitled(pod)
        if isinstance(ready, Verdict):
            kind = (ready.reason, claim_key(pod))
            self._queue.refuse(pod.key, CURES[ready.reason].wakes_on, now=now, kind=kind)
            message = ready.detail or ready.reason.value
            hopeless = is_hopeless(pod, (ready.reason,), self._placements)
            why = SchedulingFailure(
                word=ready.reason.value, message=message, hopeless=hopeless, reasons=(ready.reason.value,)
            )
            return PodsUnschedulable(pods=(pod,), why=why, unnominate=self.room.forget(pod.key))
        if pod.nominated:
            self.room.nominate(ready, self.room.with_node(ready).nominated)
        gang = assigner.gang_of(pod)
        if gang is not None:
            return self._decide_gang(assigner, gang, now)
        return self._decide_pod(assigner, self.room.with_node(ready), now)

    def place_overtaken(self, pod: Pod, *, now: float) -> BindPod | None:
        """Place a pod whose back-off is not over, if it fits now. If not, nothing is reported or changed."""
        assigner = self._assigners[pod.scheduler]
        ready = assigner.entitled(pod)
        if isinstance(ready, Verdict) or assigner.gang_of(pod) is not None:
            return None
        ready = self.room.with_node(ready)
        answer = self._assigned(assigner, ready, now)
        return self._place(ready, answer) if isinstance(answer, Placement) else None

    def remember_nomination(self, pod: Pod) -> None:
        """Take over the nomination on a pending pod: this scheduler wrote it, perhaps before a restart."""
        ready = self._assigners[pod.scheduler].entitled(pod)
        if isinstance(ready, Pod):
            self.room.nominate(ready, self.room.with_node(ready).nominated)

    def look_at(self, gang: ObjectKey, *, now: float) -> EvictGang | PodsUnschedulable | None:
        """Check a gang that an event was about or whose deadline has come, whether or not a member is pending."""
        ask = self.assigner.gang_ask(gang, self.ours)
        if not ask.min_member or not (ask.bound or ask.pending):
            self.gangs.forget(gang)
            return None
        fate = self.gangs.judge(ask, now=now, timeout=self._timeout(gang))
        if isinstance(fate, GangComplete):
            self.gangs.forget(gang)
        elif isinstance(fate, EvictPartialGang):
            return _eviction(ask, fate.why)
        elif isinstance(fate, GangBacksOff):
            return self._stand_back(ask, fate, now)
        else:
            # The back-off may be over, or a member was added: pending members are tried again.
            for pod in ask.pending:
                self._queue.reconsider(pod.key, now=now)
        return None

    def _decide_pod(self, assigner: PodAssigner, pod: Pod, now: float) -> BindPod | PodsUnschedulable:
        answer = self._assigned(assigner, pod, now)
        if isinstance(answer, Placement):
            return self._place(pod, answer)
        kind = (pod.shape, pod.priority, pod.key.namespace, pod.nominated)
        self._queue.refuse(pod.key, answer.wakes_on, now=now, kind=kind)
        preempts = self.room.for_pod(assigner, pod, now=now)
        return self._refused((pod,), answer, preempts)

    def _assigned(self, assigner: PodAssigner, pod: Pod, now: float) -> Placement | NoSeat:
        with self._foreign.lifted((pod.uid,)):
            return assigner.assign_pod(pod, self.room.nominated, now=now)

    def _decide_gang(self, assigner: PodAssigner, gang: ObjectKey, now: float) -> Decision:
        ask = assigner.gang_ask(gang, self.ours)
        fate = self.gangs.judge(ask, now=now, timeout=self._timeout(gang))
        if isinstance(fate, EvictPartialGang):
            self._put_back(ask.pending, now)
            return _eviction(ask, fate.why)
        if isinstance(fate, GangBacksOff | GangInBackoff):
            return self._stand_back(ask, fate, now)
        with self._foreign.lifted(pod.uid for pod in ask.pending):
            answer = assigner.assign_gang(ask, self.room.nominated, now=now)
        if isinstance(answer, GangPlacement):
            return self._place_gang(ask, answer, now)
        for pod in ask.pending:
            self._queue.refuse(pod.key, answer.wakes_on, now=now)
        return self._refused(ask.pending, answer, self.room.for_gang(assigner, ask, now=now))

    def _place(self, pod: Pod, seat: Placement) -> BindPod:
        choice, assumed = seat.choice, self._placements.storage.of(pod.key)
        devices = choice.ids if choice is not None else ()
        inventory = self._placements.state.inventories.get(seat.node)
        return BindPod(
            pod=pod.key,
            uid=pod.uid,
            resource_version=pod.resource_version,
            node=seat.node,
            why=f"best of {seat.fitting} that fit, by {self._policies[pod.scheduler]}",
            devices=devices,
            milli=choice.share_milli if choice is not None else MILLI_GPU,
            visible=seat.uuids,
            volumes=waiting_claims(assumed),
            promises=promises(assumed),
            withheld=self._placements.device_claims.withheld(devices, inventory),
        )

    def _place_gang(self, ask: GangRequest, answer: GangPlacement, now: float) -> BindGang | BindPod:
        """Bind the placed members. Members beyond the gang's minimum that were not placed wait like other pods."""
        for key in answer.waiting:
            self._queue.retry(key, now=now)
        places = tuple(self._place(pod, answer.seats[pod.key]) for pod in ask.pending if pod.key in answer.seats)
        count = len(ask.bound) + len(places)
        return BindGang(gang=ask.key, places=places, why=f"{count} members of {ask.min_member} it needs, at once")

    def _refused(
        self, pods: tuple[Pod, ...], answer: NoSeat | GangNoFit, preempts: tuple[Preempt, ...] | NoPreemption
    ) -> PodsUnschedulable:
        for_good = (hopeless_reason(pod, answer.reasons, self._placements) for pod in pods)
        hopeless = next((reason for reason in for_good if reason is not None), None)
        word = _word(answer) if hopeless is None else hopeless.value
        reasons = tuple(sorted(map(str, answer.reasons)))
        why = SchedulingFailure(word=word, message=str(answer), hopeless=hopeless is not None, reasons=reasons)
        if not isinstance(preempts, NoPreemption):
            return PodsUnschedulable(pods=pods, why=why, preempts=preempts)
        keep = preempts.reason is NoPreemptionReason.VICTIMS_LEAVING
        nominated = [] if keep else [self.room.forget(pod.key) for pod in pods]
        return PodsUnschedulable(pods=pods, why=why, unnominate=any(nominated))

    def _stand_back(self, ask: GangRequest, fate: GangBacksOff | GangInBackoff, now: float) -> PodsUnschedulable:
        for pod in ask.pending:
            self._queue.refuse(pod.key, (), now=now)
        nominated = [self.room.forget(pod.key) for pod in ask.pending]
        message = fate.why if isinstance(fate, GangBacksOff) else "it gave up a moment ago and lets others go first"
        why = SchedulingFailure(word=Reason.GANG_INCOMPLETE.value, message=f"gang {ask.key}: {message}")
        gave_up = ask.key if isinstance(fate, GangBacksOff) else None
        return PodsUnschedulable(pods=ask.pending, why=why, gave_up=gave_up, unnominate=any(nominated))

    def _put_back(self, pods: Sequence[Pod], now: float) -> None:
        for pod in pods:
            self._queue.retry(pod.key, now=now)

    def _timeout(self, gang: ObjectKey) -> float | None:
        group = self._placements.state.groups.get(gang)
        return None if group is None else group.timeout


def _word(answer: NoSeat | GangNoFit) -> str:
    """The main reason: of a gang the one its first unplaced member was given."""
    return str(next(iter(answer.reasons), "NoNodes"))


def _eviction(ask: GangRequest, why: str) -> EvictGang:
    victims = tuple(
        Victim(pod=pod.key, uid=pod.uid, node=pod.node, priority=pod.priority)
        for pod in ask.bound
        if not pod.phase.over
    )
    return EvictGang(gang=ask.key, victims=victims, why=f"gang {ask.key}: {why}")
