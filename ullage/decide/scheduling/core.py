"""SchedulerCore: snapshot, scheduling queue and next decision. Synchronous; `now` is an argument.

Decisions do not wait for writes: a placement is assumed in the snapshot at once, and `settle` takes it back if the
write did not happen. A bind that succeeded is assumed until the pod is observed, for a limited time.
"""

from collections.abc import Callable, Mapping
from typing import Any, assert_never

from ullage.config.settings import SchedulingSettings
from ullage.decide.gang.membership import gang_of
from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.placement.observed_gpus import GpuAccounting
from ullage.decide.placement.quota import QuotaTable
from ullage.decide.preemption.preempt import NoPreemption
from ullage.decide.scheduling.cycle import SchedulingCycle
from ullage.decide.scheduling.decisions import Decision, PodsUnschedulable, PreemptionSearch
from ullage.decide.scheduling.denials import Denials
from ullage.decide.scheduling.requeue import asks_differently, cluster_event_of
from ullage.model.allocation import lease_name
from ullage.model.claim import Claim
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.gang import PodGroup
from ullage.model.intents import BindPod, Preempt
from ullage.model.lease import GpuLease
from ullage.model.outcomes import BindFailure, PlaceOutcome, PodBound, PodNotBound, PreemptOutcome
from ullage.model.pod import Pod
from ullage.model.stepper import Stepper
from ullage.model.units import Instant, Seconds
from ullage.model.verdict import ClusterEvent
from ullage.state.queue import SchedulingQueue
from ullage.state.snapshot import ClusterSnapshot

BELIEVED_FOR = Seconds(300.0)
"""Seconds a successful bind stays assumed without the pod being observed on its node."""

PODS_PER_STEP = 5_000
"""Pods whose GPUs are accounted for in one step of a warm-up."""

TAKEN_FOR = Seconds(30.0)
"""Seconds a GPU leased to another holder is not offered, unless its Lease is observed sooner."""
RELEASED_WITHIN = Seconds(1.0)
"""Seconds that pods are not woken for one GPU of a holder while its other GPUs are being released."""


class SchedulerCore:
    """State and next decision of one scheduler. `profiles` are policies by scheduler name."""

    def __init__(
        self,
        profiles: Mapping[str, str],
        settings: SchedulingSettings = SchedulingSettings(),  # noqa: B008 - frozen
        *,
        vms_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`vms_changed`: called when a number of the VM ledger may be another one."""
        self.snapshot = ClusterSnapshot(vms_changed=vms_changed)
        self.queue = SchedulingQueue(settings)
        self._foreign = self.snapshot.leases
        self._accounting = GpuAccounting(self.snapshot)
        self._cycle = SchedulingCycle(profiles, self.snapshot, self.queue, self._foreign)
        self._touched: dict[ObjectKey, None] = {}
        """Gangs with events since they were last checked."""
        self._believed: dict[ObjectKey, Instant] = {}
        self._releasing: dict[str, Instant] = {}
        """Holders with GPUs that are free and others that are not yet, by uid, each waited for until this instant."""
        self.denials = Denials()

    def configure(self, settings: SchedulingSettings) -> None:
        """Take over changed settings: back-off, and the policies of schedulers that are served already."""
        self.queue.configure(settings)
        self._cycle.use_policies(settings.policies())

    @property
    def quota(self) -> QuotaTable:
        """Usage and limits of namespaces."""
        return self._cycle.assigner.quota

    @property
    def engine(self) -> PlacementEngine:
        """Rules of placement on this scheduler's snapshot."""
        return self._cycle.assigner.engine

    @property
    def leases_held(self) -> int:
        """GPU Leases, as last observed."""
        return len(self._foreign)

    @property
    def gangs_waiting(self) -> int:
        return self._cycle.gangs.waiting

    def waited(self, pod: ObjectKey, *, now: Instant) -> Seconds | None:
        """Seconds since a pending pod was first observed."""
        return self.queue.waited(pod, now=now) if pod in self.queue else None

    def gang_waited(self, gang: ObjectKey, *, now: Instant) -> Seconds:
        """Seconds since the first of the gang's pods was tried."""
        return self._cycle.gangs.waited(gang, now=now)

    def apply(self, event: FactEvent[Any], *, now: Instant) -> None:
        """Take in one event, and wake the pods it may help."""
        self.queue.count_event()
        fact = event.new if isinstance(event, Added | Updated) else getattr(event, "old", None)
        volumes = self.snapshot.volumes_version
        self.snapshot.apply(event)
        self._accounting.observe(event)
        if isinstance(fact, GpuLease):
            if isinstance(event, Deleted) or (isinstance(event, Updated) and event.old.holds != event.new.holds):
                self._apply_released(event, now)
            return
        if isinstance(fact, Pod):
            self._apply_pod(event, fact, now)
            self._volumes_given_back(volumes, now)
            return
        wake = cluster_event_of(event)
        if isinstance(fact, PodGroup):
            self._touched[fact.key] = None
        elif isinstance(fact, Claim) and (wake is not None or isinstance(event, Deleted)):
            self._apply_claim(fact, now)
        if wake is not None:
            self.queue.move_on(wake, now=now)
            if isinstance(fact, Claim):
                self._asked_anew(fact.key)

    def _apply_released(self, event: Deleted[GpuLease] | Updated[GpuLease], now: Instant) -> None:
        """Wake pods for a GPU that its holder released; once all its GPUs are free, if the holder has several.

        They are released one by one. Were pods tried in between, a small one would take what an older, larger one
        waits for.
        """
        kept = {hold.uid for hold in event.new.holds} if isinstance(event, Updated) else set()
        left = {hold.uid for hold in event.old.holds} - kept
        waits = {uid for uid in left if self._foreign.holds(uid)}
        for uid in left:
            self._releasing.pop(uid, None)
        for uid in sorted(waits):
            self._releasing[uid] = Instant(now + RELEASED_WITHIN)
        if waits != left or not left:
            self.queue.move_on(ClusterEvent.POD_LEFT, now=now)

    def _asked_anew(self, claim: ObjectKey) -> None:
        """Try the claim's pods again, at once: they ask for something else."""
        state = self.snapshot.state
        for pod in (*state.pods_naming(claim), *state.pods_from_template(claim)):
            self.queue.ask_anew(pod.key)

    def warm_up(self) -> Stepper[None]:
        """Compute in steps, before the first decision, what it would compute at once: at 5,000 nodes 0.2 s."""
        while self._accounting.settle(PODS_PER_STEP):
            yield Seconds(0.0)
        yield from self._cycle.warm_up()

    def next_decision(self, *, now: Instant) -> Decision | None:
        """Decide on the next pod or gang; None if none is due."""
        self._accounting.settle()
        self._doubt(now)
        self._touched.update(dict.fromkeys(self._cycle.gangs.due(now=now)))
        for gang in tuple(self._touched):  # the first decision ends this call; the other gangs stay in the set
            del self._touched[gang]
            if (about_gang := self._cycle.look_at(gang, now=now)) is not None:
                return about_gang
        if (overtaken := self._place_overtaken(now)) is not None:
            return overtaken
        while (deferred := self._cycle.take_deferred()) is not None:
            if (decision := self._decide(deferred, now)) is not None:
                return decision
        while (key := self.queue.pop(now=now)) is not None:
            pod = self.snapshot.state.pods.get(key)
            if pod is None:
                self.queue.remove(key)
            elif key in self.snapshot.pods:
                continue  # it was placed with its gang, and its bind is under way
            elif (decision := self._decide(pod, now)) is not None:
                return decision
        return None

    def _decide(self, pod: Pod, now: Instant) -> Decision | None:
        """Decide on a pod taken from the queue; None if it is not ours, or its bind was denied and it has to wait."""
        if not self._cycle.ours(pod):
            self.queue.remove(pod.key)
            return None
        if (until := self.denials.wait_until(pod.key, pod.uid, now=now)) is not None:
            self.queue.postpone(pod.key, until=until)
            return None
        return self._cycle.decide(pod, now=now)

    def conclude(
        self, search: PreemptionSearch, found: tuple[Preempt, ...] | NoPreemption, *, now: Instant
    ) -> PodsUnschedulable | None:
        """Take over the result of a search, checked on the snapshot as it is now. None if its pods ask no longer."""
        self._accounting.settle()
        return self._cycle.conclude(search, found, now=now)

    def _place_overtaken(self, now: Instant) -> Decision | None:
        """Place a pod in back-off that has waited longer than the next pod, if it fits by now."""
        while (key := self.queue.pop_overtaken(now=now)) is not None:
            pod = self.snapshot.state.pods.get(key)
            if pod is None or not self._cycle.ours(pod):
                self.queue.remove(key)
            elif key not in self.snapshot.pods:
                tried = self._cycle.place_overtaken(pod, now=now)
                if isinstance(tried, BindPod):
                    return tried
                self.queue.put_back(key, now=now, wakes_on=tried)
        return None

    def next_deadline(self) -> Instant | None:
        """Instant at which to decide again without an event."""
        believed = next(iter(self._believed.values()), None)
        moments = (
            self.queue.next_deadline(),
            self._cycle.gangs.next_deadline(),
            self._foreign.next_doubt(),
            believed,
            next(iter(self._releasing.values()), None),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def settle(self, outcome: PlaceOutcome, *, now: Instant) -> None:
        """Take over the outcome of a write."""
        action = outcome.action
        heard = self.snapshot.state.pods.get(action.pod)
        on_node = heard is not None and heard.holds_room
        if isinstance(outcome, PodBound):
            self.denials.allowed(action.pod)
            self._cycle.nominator.forget(action.pod)
            self.queue.remove(action.pod)
            if not on_node:
                self._believed[action.pod] = Instant(now + BELIEVED_FOR)
            return
        if not isinstance(outcome, PodNotBound):
            assert_never(outcome)
        held = self.snapshot.pods.get(action.pod)
        if held is not None and held.uid == action.uid and not on_node:
            volumes = self.snapshot.volumes_version
            self.snapshot.forget(action.pod)
            self._volumes_given_back(volumes, now)
            self._foreign.reconsider(action.uid)
        self._learn_from(outcome, now)
        if outcome.setback is BindFailure.POD_GONE:
            self.queue.remove(action.pod)
        else:
            self.queue.requeue(action.pod, now=now)
        self.queue.move_on(ClusterEvent.POD_LEFT, now=now)

    def _volumes_given_back(self, before: int, now: Instant) -> None:
        """Wake pods that volumes of an undone placement may serve; no event reports those."""
        if self.snapshot.volumes_version != before:
            self.queue.move_on(ClusterEvent.VOLUME_CHANGED, now=now)

    def settle_preemption(self, outcome: PreemptOutcome, *, now: Instant) -> None:
        """Take over the outcome of evictions."""
        self._cycle.nominator.settle(outcome)
        if outcome.refused:
            self.queue.requeue(outcome.action.pod, now=now)

    def _doubt(self, now: Instant) -> None:
        """Drop assumed binds that were not observed in time, and marks on GPUs that another holder had leased."""
        late = [uid for uid, until in self._releasing.items() if until <= now]
        for uid in late:
            del self._releasing[uid]
        if self._foreign.doubt(now=now) or late:
            self.queue.move_on(ClusterEvent.POD_LEFT, now=now)
        while self._believed:
            key, until = next(iter(self._believed.items()))
            if now < until:
                return
            del self._believed[key]
            heard = self.snapshot.state.pods.get(key)
            if heard is None or not heard.holds_room:
                self.snapshot.forget(key)
                if heard is not None:
                    self._foreign.reconsider(heard.uid)
                self.queue.move_on(ClusterEvent.POD_LEFT, now=now)
            if heard is not None and self._cycle.ours(heard):
                self.queue.add(key, priority=heard.priority, now=now)

    def _learn_from(self, outcome: PodNotBound, now: Instant) -> None:
        """Do not offer a device that another holder has until its Lease is observed, for TAKEN_FOR at most."""
        if outcome.setback is BindFailure.FORBIDDEN:
            self.denials.denied(outcome.action.pod, outcome.action.uid, outcome.detail, now=now)
        if outcome.setback is BindFailure.GPU_TAKEN and outcome.device is not None:
            node = outcome.action.node
            until = now + TAKEN_FOR
            self._foreign.taken(node, outcome.device, lease_name(node, outcome.device), until=Instant(until))

    def _apply_claim(self, claim: Claim, now: Instant) -> None:
        """Take in a claim that asks for something else: the reasons its pods were refused for may be over."""
        state = self.snapshot.state
        for pod in (*state.pods_naming(claim.key), *state.pods_from_template(claim.key)):
            self.queue.reconsider(pod.key, now=now)
        if claim.pod:
            self.queue.reconsider(ObjectKey(claim.key.namespace, claim.pod), now=now)
        if claim.gang:
            self._touched[ObjectKey(claim.key.namespace, claim.gang)] = None

    def _apply_pod(self, event: FactEvent[Pod], pod: Pod, now: Instant) -> None:
        before = event.old if isinstance(event, Updated | Deleted) else None
        after = None if isinstance(event, Deleted) else pod
        self._cycle.nominator.observe_pod(before, after)
        waiting = after is not None and self._cycle.ours(after)
        if waiting:
            self._apply_waiting_pod(before, pod, now)
        else:
            self.queue.remove(pod.key)
            self._cycle.nominator.forget(pod.key)
            self.denials.forget(pod.key)
        had, has = before is not None and before.holds_room, after is not None and after.holds_room
        if has or after is None:
            self._believed.pop(pod.key, None)
        if had and not has:
            self.queue.move_on(ClusterEvent.POD_LEFT, now=now)
        elif has and not had:
            self.queue.move_on(ClusterEvent.POD_ARRIVED, now=now)
        elif has and before is not None and before.vm != pod.vm:
            self.queue.move_on(ClusterEvent.VM_CHANGED, now=now)
        if (had, before is None) != (has, after is None) and (gang := gang_of(pod, self.snapshot.state)) is not None:
            self._touched[gang] = None

    def _apply_waiting_pod(self, before: Pod | None, pod: Pod, now: Instant) -> None:
        if pod.key in self._believed:
            return  # a stale event: the pod has been bound since
        self.queue.add(pod.key, priority=pod.priority, now=now)
        if before is not None and asks_differently(before, pod):
            self.queue.ask_anew(pod.key)
        elif before is not None and before.labels != pod.labels:  # rules about other pods may go by them
            self.queue.reconsider(pod.key, now=now)
        if pod.nominated:
            self._cycle.remember_nomination(pod)
