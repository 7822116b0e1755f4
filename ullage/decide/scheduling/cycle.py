"""SchedulingCycle: one decision per turn, for a single pod or for a gang with the first of its members. No I/O.

A decision counts at once: placements are assumed in the snapshot, refused pods wait for a ClusterEvent that can help
them, and victims are no longer counted as staying.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ullage.decide.gang.membership import gang_of
from ullage.decide.gang.placement import GangNoFit, GangPlacement, GangRequest
from ullage.decide.gang.timeout import EvictPartialGang, GangBacksOff, GangComplete
from ullage.decide.placement.engine import NoFit, Placement
from ullage.decide.placement.filters.first_consumer import volume_assignments, waiting_claims
from ullage.decide.placement.prefilter import claim_in_use, claim_key, is_permanent
from ullage.decide.placement.reasons import CURES
from ullage.decide.preemption.preempt import NoPreemption, NoPreemptionReason
from ullage.decide.scheduling.assignment import PodAssigner, queue_order, waits
from ullage.decide.scheduling.decisions import Decision, PodsUnschedulable, PreemptionSearch, SearchDeferred
from ullage.decide.scheduling.gang_tracker import GangInBackoff, GangTracker
from ullage.decide.scheduling.nominator import Nominator
from ullage.model.device import MILLI_GPU
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindGang, BindPod, EvictGang, Preempt, Victim
from ullage.model.pod import Pod
from ullage.model.refusal import SchedulingFailure
from ullage.model.stepper import Stepper, begin
from ullage.model.units import Instant, Seconds
from ullage.model.verdict import ClusterEvent, Reason, Verdict
from ullage.state.external_leases import ExternalLeases
from ullage.state.queue import QueueState, SchedulingQueue
from ullage.state.snapshot import ClusterSnapshot

INLINE_SEARCH = Seconds(0.010)
"""Modelled CPU seconds of a preemption that is decided at once. A longer search goes on in steps beside decisions."""

_TRY_AGAIN = (NoPreemptionReason.CHANGED, NoPreemptionReason.OUT_OF_TIME)


class SchedulingCycle:
    """Decides for one scheduler. `profiles` are policies by scheduler name."""

    def __init__(
        self, profiles: Mapping[str, str], snapshot: ClusterSnapshot, queue: SchedulingQueue, foreign: ExternalLeases
    ) -> None:
        self.gangs = GangTracker()
        self.nominator = Nominator(snapshot)
        self._snapshot = snapshot
        self._queue = queue
        self._foreign = foreign
        first, *others = dict.fromkeys(profiles.values())
        by_policy = {first: PodAssigner(snapshot, first)}
        by_policy |= {policy: by_policy[first].beside(policy) for policy in others}
        self._assigners = {name: by_policy[policy] for name, policy in profiles.items()}
        self._policies = dict(profiles)
        self._searching: PreemptionSearch | None = None
        """The search that goes on in steps; one at a time, so that two do not choose the same victims."""
        self._deferred: dict[ObjectKey, None] = {}
        """Pods in flight whose search has to wait for the one that goes on."""
        self.assigner = self._assigners[next(iter(profiles))]
        """Any of the assigners, for questions whose answer depends on no policy."""

    def use_policies(self, profiles: Mapping[str, str]) -> None:
        """Decide by other policies from now on. Names that are not served yet, or no longer, need a restart."""
        changed = {name: profiles[name] for name in self._policies if name in profiles}
        by_policy = {policy: self._assigners[name] for name, policy in self._policies.items()}
        for name, policy in changed.items():
            if policy not in by_policy:
                by_policy[policy] = self.assigner.beside(policy)
            self._assigners[name], self._policies[name] = by_policy[policy], policy

    def warm_up(self) -> Stepper[None]:
        """Compute in steps what the first decisions would compute at once."""
        for assigner in dict.fromkeys(self._assigners.values()):
            yield from assigner.engine.warm_up()

    def ours(self, pod: Pod) -> bool:
        """True if the pod waits for this scheduler to place it."""
        return pod.scheduler in self._assigners and waits(pod) and not pod.gated

    def take_deferred(self) -> Pod | None:
        """Return the most important pod whose search had to wait, once there is none before it."""
        pods = self._snapshot.state.pods
        while self._deferred and self._searching is None:
            known = [pods[key] for key in self._deferred if key in pods]
            if not known:
                self._deferred.clear()
                return None
            pod = min(known, key=queue_order)
            del self._deferred[pod.key]
            if self._queue.place_of(pod.key) is QueueState.OUT and pod.key not in self._snapshot.pods:
                return pod
        return None

    def decide(self, pod: Pod, *, now: Instant) -> Decision:
        """Decide on one pod."""
        assigner = self._assigners[pod.scheduler]
        ready = assigner.entitled(pod)
        if isinstance(ready, Verdict):
            kind = (ready.reason, claim_key(pod))
            self._queue.add_unschedulable(pod.key, CURES[ready.reason].wakes_on, now=now, kind=kind)
            message = ready.detail or ready.reason.value
            permanent = is_permanent(pod, (ready.reason,), self._snapshot)
            why = SchedulingFailure(word=ready.reason.value, message=message, permanent=permanent)
            return PodsUnschedulable(pods=(pod,), why=why, unnominate=self.nominator.forget(pod.key))
        if pod.nominated:
            self.nominator.nominate(ready, self.nominator.with_node(ready).nominated)
        gang = gang_of(pod, assigner.snapshot.state)
        if gang is not None:
            if self._searching is not None and self._searching.gang == gang:
                return self._defer(pod)
            return self._decide_gang(assigner, gang, pod, now)
        return self._decide_pod(assigner, self.nominator.with_node(ready), now)

    def place_overtaken(self, pod: Pod, *, now: Instant) -> BindPod | frozenset[ClusterEvent] | None:
        """Place a pod whose back-off is not over, if it fits now. If not, nothing is reported or changed.

        Returns the events that would help it then, which may be others than at its refusal; None for a gang's member.
        """
        assigner = self._assigners[pod.scheduler]
        ready = assigner.entitled(pod)
        if isinstance(ready, Verdict):
            return CURES[ready.reason].wakes_on
        if gang_of(pod, assigner.snapshot.state) is not None:
            return None
        ready = self.nominator.with_node(ready)
        answer = self._assigned(assigner, ready, now)
        return self._place(ready, answer) if isinstance(answer, Placement) else answer.wakes_on

    def remember_nomination(self, pod: Pod) -> None:
        """Take over the nomination on a pending pod: this scheduler wrote it, perhaps before a restart."""
        ready = self._assigners[pod.scheduler].entitled(pod)
        if isinstance(ready, Pod):
            self.nominator.nominate(ready, self.nominator.with_node(ready).nominated)

    def look_at(self, gang: ObjectKey, *, now: Instant) -> EvictGang | PodsUnschedulable | None:
        """Check a gang that an event was about or whose deadline has come, whether or not a member is pending."""
        ask = self.assigner.gang_ask(gang, self.ours)
        if not ask.min_member or not (ask.bound or ask.pending):
            self.gangs.forget(gang)
            return None
        fate = self.gangs.decide_fate(ask, now=now, timeout=self._timeout(gang))
        if isinstance(fate, GangComplete):
            self.gangs.forget(gang)
        elif isinstance(fate, EvictPartialGang):
            return _eviction(ask, fate.why)
        elif isinstance(fate, GangBacksOff):
            return self._back_off(ask, fate, now)
        else:
            # The back-off may be over, or a member was added: pending members are tried again.
            for pod in ask.pending:
                self._queue.reconsider(pod.key, now=now)
        return None

    def _decide_pod(self, assigner: PodAssigner, pod: Pod, now: Instant) -> Decision:
        answer = self._assigned(assigner, pod, now)
        if isinstance(answer, Placement):
            return self._place(pod, answer)
        kind = (pod.shape, pod.priority, pod.key.namespace, pod.nominated)
        steps = self.nominator.search_for_pod(assigner, pod, now=now)
        return self._search(PreemptionSearch(pods=(pod,), answer=answer, steps=steps, kind=kind), pod, now)

    def _assigned(self, assigner: PodAssigner, pod: Pod, now: Instant) -> Placement | NoFit:
        with self._foreign.lifted((pod.uid,)):
            return assigner.assign_pod(pod, self.nominator.nominated, now=now)

    def _decide_gang(self, assigner: PodAssigner, gang: ObjectKey, pod: Pod, now: Instant) -> Decision:
        ask = assigner.gang_ask(gang, self.ours)
        fate = self.gangs.decide_fate(ask, now=now, timeout=self._timeout(gang))
        if isinstance(fate, EvictPartialGang):
            self._put_back(ask.pending, now)
            return _eviction(ask, fate.why)
        if isinstance(fate, GangBacksOff | GangInBackoff):
            return self._back_off(ask, fate, now)
        with self._foreign.lifted(pod.uid for pod in ask.pending):
            answer = assigner.assign_gang(ask, self.nominator.nominated, now=now)
        if isinstance(answer, GangPlacement):
            return self._place_gang(ask, answer, now)
        steps = self.nominator.search_for_gang(assigner, ask, now=now)
        return self._search(PreemptionSearch(pods=ask.pending, answer=answer, steps=steps, gang=gang), pod, now)

    def _search(self, search: PreemptionSearch, pod: Pod, now: Instant) -> Decision:
        """Search at once if it is short. A longer search goes on while others are decided, one at a time."""
        found = begin(search.steps, INLINE_SEARCH)
        if isinstance(found, tuple):
            return self._searched(search, found[0], now)
        if self._searching is None:
            self._searching = replace(search, steps=found)
            return self._searching
        found.close()
        return self._defer(pod)

    def _defer(self, pod: Pod) -> SearchDeferred:
        """Keep the pod in flight until the search that goes on has ended; then it is decided on anew."""
        self._deferred[pod.key] = None
        return SearchDeferred(pod.key)

    def conclude(
        self, search: PreemptionSearch, found: tuple[Preempt, ...] | NoPreemption, *, now: Instant
    ) -> PodsUnschedulable | None:
        """Take over the result of a search. None if its pods are gone, placed, or ask for something else by now."""
        self._searching = None
        if not all(self._still_asks(pod) for pod in search.pods):
            self._put_back([pod for pod in search.pods if self._queue.place_of(pod.key) is QueueState.OUT], now)
            return None
        if not isinstance(found, NoPreemption) and not self._is_still_right(search, found, now):
            found = NoPreemption(NoPreemptionReason.CHANGED)
        return self._searched(search, found, now)

    def _still_asks(self, pod: Pod) -> bool:
        """True if the pod is pending, and asks for what it asked for when it was refused."""
        known = self._snapshot.state.pods.get(pod.key)
        if known is None or known.uid != pod.uid or not self.ours(known) or pod.key in self._snapshot.pods:
            return False
        ready = self._assigners[known.scheduler].entitled(known)
        return isinstance(ready, Pod) and (ready.shape, ready.priority) == (pod.shape, pod.priority)

    def _is_still_right(self, search: PreemptionSearch, found: tuple[Preempt, ...], now: Instant) -> bool:
        assigner = self._assigners[search.pods[0].scheduler]
        if self._fits_now(assigner, search, now):
            return False  # room was made otherwise: no pod is evicted for nothing
        return self.nominator.is_still_right(assigner, search.pods, found, now=now)

    def _fits_now(self, assigner: PodAssigner, search: PreemptionSearch, now: Instant) -> bool:
        with self._foreign.lifted(pod.uid for pod in search.pods), self._snapshot.what_if():
            if search.gang is None:
                return isinstance(assigner.assign_pod(search.pods[0], self.nominator.nominated, now=now), Placement)
            ask = assigner.gang_ask(search.gang, self.ours)
            return isinstance(assigner.assign_gang(ask, self.nominator.nominated, now=now), GangPlacement)

    def _searched(
        self, search: PreemptionSearch, found: tuple[Preempt, ...] | NoPreemption, now: Instant
    ) -> PodsUnschedulable:
        again = isinstance(found, NoPreemption) and found.reason in _TRY_AGAIN
        for pod in search.pods:
            if again:
                self._queue.requeue(pod.key, now=now)
            else:
                self._queue.add_unschedulable(pod.key, search.answer.wakes_on, now=now, kind=search.kind)
        if not isinstance(found, NoPreemption):
            self.nominator.decide(search.pods, found)
        return self._refused(search.pods, search.answer, found, now)

    def _decided_by(self, pod: Pod, devices: Sequence[int]) -> str:
        """Words for what chose the node. VMs without GPUs have scores of their own."""
        if pod.shape.vm is None or devices:
            return self._policies[pod.scheduler]
        return "room below the watermark" if pod.shape.vm_elsewhere else "how full it is with the VM"

    def _place(self, pod: Pod, placement: Placement) -> BindPod:
        choice, assumed = placement.choice, self._snapshot.storage.of(pod.key)
        devices = choice.ids if choice is not None else ()
        inventory = self._snapshot.state.inventories.get(placement.node)
        return BindPod(
            pod=pod.key,
            uid=pod.uid,
            resource_version=pod.resource_version,
            node=placement.node,
            why=f"best of {placement.fitting} that fit, by {self._decided_by(pod, devices)}",
            devices=devices,
            milli=choice.share_milli if choice is not None else MILLI_GPU,
            visible=placement.uuids,
            volumes=waiting_claims(assumed),
            volume_assignments=volume_assignments(assumed),
            approved=None if pod.vm is None else pod.vm.approved,
            withheld=self._snapshot.device_claims.withheld(devices, inventory),
            claim=claim_in_use(pod, self._snapshot.state),
        )

    def _place_gang(self, ask: GangRequest, answer: GangPlacement, now: Instant) -> BindGang | BindPod:
        """Bind the placed members. Members beyond the gang's minimum that were not placed wait like other pods."""
        for key in answer.waiting:
            self._queue.requeue(key, now=now)
        places = tuple(
            self._place(pod, answer.placements[pod.key]) for pod in ask.pending if pod.key in answer.placements
        )
        count, missing = len(ask.bound) + len(places), max(0, ask.min_member - len(places))
        return BindGang(
            gang=ask.key,
            places=places,
            why=f"{count} members of {ask.min_member} it needs, at once",
            beside=tuple((pod.key, pod.uid) for pod in ask.bound) if missing else (),
            beside_needed=missing,
        )

    def _refused(
        self,
        pods: tuple[Pod, ...],
        answer: NoFit | GangNoFit,
        preempts: tuple[Preempt, ...] | NoPreemption,
        now: Instant,
    ) -> PodsUnschedulable:
        permanent = any(is_permanent(pod, answer.reasons, self._snapshot) for pod in pods)
        word, message = self._assigners[pods[0].scheduler].why(pods[0], answer, now=now)
        why = SchedulingFailure(word=word, message=message, permanent=permanent)
        if not isinstance(preempts, NoPreemption):
            return PodsUnschedulable(pods=pods, why=why, preempts=preempts)
        keep = preempts.reason in (NoPreemptionReason.VICTIMS_LEAVING, *_TRY_AGAIN)
        nominated = [] if keep else [self.nominator.forget(pod.key) for pod in pods]
        return PodsUnschedulable(pods=pods, why=why, unnominate=any(nominated))

    def _back_off(self, ask: GangRequest, fate: GangBacksOff | GangInBackoff, now: Instant) -> PodsUnschedulable:
        for pod in ask.pending:
            self._queue.add_unschedulable(pod.key, (), now=now)
        nominated = [self.nominator.forget(pod.key) for pod in ask.pending]
        message = fate.why if isinstance(fate, GangBacksOff) else "it gave up a moment ago and lets others go first"
        why = SchedulingFailure(word=Reason.GANG_INCOMPLETE.value, message=f"gang {ask.key}: {message}")
        gave_up = ask.key if isinstance(fate, GangBacksOff) else None
        return PodsUnschedulable(pods=ask.pending, why=why, gave_up=gave_up, unnominate=any(nominated), passing=True)

    def _put_back(self, pods: Sequence[Pod], now: Instant) -> None:
        for pod in pods:
            self._queue.requeue(pod.key, now=now)

    def _timeout(self, gang: ObjectKey) -> Seconds | None:
        group = self._snapshot.state.groups.get(gang)
        return None if group is None else group.timeout


def _eviction(ask: GangRequest, why: str) -> EvictGang:
    victims = tuple(
        Victim(pod=pod.key, uid=pod.uid, node=pod.node, priority=pod.priority)
        for pod in ask.bound
        if not pod.phase.over
    )
    return EvictGang(gang=ask.key, victims=victims, why=f"gang {ask.key}: {why}")
