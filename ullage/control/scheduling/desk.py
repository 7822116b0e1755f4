"""The scheduler's desk: the picture, the queue, and the next decision. No I/O; time is told.

Decisions do not wait for writes: a pod that got a seat holds it in the picture at once, and `settle` takes it back if
the write did not happen. What was written is believed until the pod is heard of, but not for ever.
"""

from collections.abc import Mapping
from typing import Any

from ullage.control.scheduling.decisions import Decision
from ullage.control.scheduling.news import asks_differently, news
from ullage.control.scheduling.turns import Turns
from ullage.decide.quota import QuotaTable
from ullage.model.allocation import lease_name
from ullage.model.claim import Claim
from ullage.model.event import Appeared, Changed, Event, ObjectKey, Synced, Vanished
from ullage.model.gang import PodGroup
from ullage.model.lease import GpuLease
from ullage.model.outcome import NotPlaced, Placed, PlaceOutcome, PreemptOutcome, Setback
from ullage.model.pod import Pod
from ullage.model.verdict import Wake
from ullage.state.foreign import ForeignHolds
from ullage.state.placements import Placements
from ullage.state.queue import QueuePace, SchedulingQueue

BELIEVED_FOR = 300.0
"""Seconds a bind that was answered is believed without the pod being heard of on its node."""

TAKEN_FOR = 30.0
"""Seconds a GPU that somebody else had leased is not offered, should nothing be heard of that Lease."""


class Desk:
    """Everything a scheduler knows and what it has to decide next. `profiles` are policies by scheduler name."""

    def __init__(self, profiles: Mapping[str, str], pace: QueuePace = QueuePace()) -> None:  # noqa: B008 - frozen
        self.placements = Placements()
        self.queue = SchedulingQueue(pace)
        self._foreign = ForeignHolds(self.placements)
        self._turns = Turns(profiles, self.placements, self.queue, self._foreign)
        self._touched: dict[ObjectKey, None] = {}
        """Gangs of which something was heard since they were last looked at."""
        self._believed: dict[ObjectKey, float] = {}

    @property
    def quota(self) -> QuotaTable:
        """What namespaces hold."""
        return self._turns.assigner.quota

    @property
    def leases_held(self) -> int:
        """Leases of GPUs there are, as last heard."""
        return len(self._foreign)

    @property
    def gangs_waiting(self) -> int:
        return self._turns.gangs.waiting

    def waited(self, pod: ObjectKey, *, now: float) -> float | None:
        """Seconds since a waiting pod was first seen."""
        return self.queue.waited(pod, now=now) if pod in self.queue else None

    def gang_waited(self, gang: ObjectKey, *, now: float) -> float:
        """Seconds since the first of its pods was tried."""
        return self._turns.gangs.waited(gang, now=now)

    def hear(self, event: Event[Any], *, now: float) -> None:
        """Take in one thing, and wake whom it may help."""
        self.queue.note()
        fact = event.new if isinstance(event, Appeared | Changed) else getattr(event, "old", None)
        if isinstance(event, Synced):
            self._foreign.apply(event)
        if isinstance(fact, GpuLease):
            self._foreign.apply(event)
            if isinstance(event, Vanished) or (isinstance(event, Changed) and event.old.holds != event.new.holds):
                self.queue.wake(Wake.POD_LEFT, now=now)
            return
        self.placements.apply(event)
        if isinstance(fact, Pod):
            self._pod_heard(event, fact, now)
            return
        wake = news(event)
        if isinstance(fact, PodGroup):
            self._touched[fact.key] = None
        elif isinstance(fact, Claim) and (wake is not None or isinstance(event, Vanished)):
            self._claim_heard(fact, now)
        if wake is not None:
            self.queue.wake(wake, now=now)
            if isinstance(fact, Claim):
                self._asked_anew(fact.key, now)

    def _asked_anew(self, claim: ObjectKey, now: float) -> None:
        """Whatever nodes its pods were refused for may not matter any more."""
        state = self.placements.state
        for pod in (*state.pods_naming(claim), *state.pods_from_template(claim)):
            self.queue.reconsider(pod.key, now=now)

    def next_decision(self, *, now: float) -> Decision | None:
        """Decide on whoever's turn it is; None if nobody's."""
        self._doubt(now)
        self._touched.update(dict.fromkeys(self._turns.gangs.due(now=now)))
        for gang in tuple(self._touched):  # the first decision ends this turn; the others keep theirs
            del self._touched[gang]
            if (decision := self._turns.look_at(gang, now=now)) is not None:
                return decision
        while (key := self.queue.pop(now=now)) is not None:
            pod = self.placements.state.pods.get(key)
            if pod is None or not self._turns.ours(pod):
                self.queue.remove(key)
            elif key not in self.placements.pods:  # else it got its seat with its gang, and is being written
                return self._turns.decide(pod, now=now)
        return None

    def next_deadline(self) -> float | None:
        """When to come back without news."""
        believed = next(iter(self._believed.values()), None)
        moments = (
            self.queue.next_deadline(),
            self._turns.gangs.next_deadline(),
            self._foreign.next_doubt(),
            believed,
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def settle(self, outcome: PlaceOutcome, *, now: float) -> None:
        """A write has ended."""
        action = outcome.action
        heard = self.placements.state.pods.get(action.pod)
        on_node = heard is not None and heard.holds_room
        if isinstance(outcome, Placed):
            self._turns.room.forget(action.pod)
            self.queue.remove(action.pod)
            if not on_node:
                self._believed[action.pod] = now + BELIEVED_FOR
            return
        held = self.placements.pods.get(action.pod)
        if held is not None and held.uid == action.uid and not on_node:
            self.placements.remove(action.pod)
            self._foreign.reconsider(action.uid)
        self._learn_from(outcome, now)
        if outcome.setback is Setback.POD_GONE:
            self.queue.remove(action.pod)
        else:
            self.queue.retry(action.pod, now=now)
        self.queue.wake(Wake.POD_LEFT, now=now)

    def settle_preemption(self, outcome: PreemptOutcome, *, now: float) -> None:
        """Evictions have been asked for."""
        self._turns.room.settled(outcome)
        if outcome.refused:
            self.queue.retry(outcome.action.pod, now=now)

    def _doubt(self, now: float) -> None:
        """Binds that nothing was heard of for so long did not happen, whatever was answered; nor are GPUs taken."""
        if self._foreign.doubt(now=now):
            self.queue.wake(Wake.POD_LEFT, now=now)
        while self._believed:
            key, until = next(iter(self._believed.items()))
            if now < until:
                return
            del self._believed[key]
            heard = self.placements.state.pods.get(key)
            if heard is None or not heard.holds_room:
                self.placements.remove(key)
                if heard is not None:
                    self._foreign.reconsider(heard.uid)
                self.queue.wake(Wake.POD_LEFT, now=now)
            if heard is not None and self._turns.ours(heard):
                self.queue.add(key, priority=heard.priority, now=now)

    def _learn_from(self, outcome: NotPlaced, now: float) -> None:
        """A device somebody else holds is not offered again until its Lease has been heard of, or for a while."""
        if outcome.setback is Setback.GPU_TAKEN and outcome.device is not None:
            node = outcome.action.node
            until = now + TAKEN_FOR
            self._foreign.taken(node, outcome.device, lease_name(node, outcome.device), until=until)

    def _claim_heard(self, claim: Claim, now: float) -> None:
        """It asks for something else now, so whatever its pods were refused for may no longer hold."""
        state = self.placements.state
        for pod in (*state.pods_naming(claim.key), *state.pods_from_template(claim.key)):
            self.queue.reconsider(pod.key, now=now)
        if claim.pod:
            self.queue.reconsider(ObjectKey(claim.key.namespace, claim.pod), now=now)
        if claim.gang:
            self._touched[ObjectKey(claim.key.namespace, claim.gang)] = None

    def _pod_heard(self, event: Event[Pod], pod: Pod, now: float) -> None:
        before = event.old if isinstance(event, Changed | Vanished) else None
        after = None if isinstance(event, Vanished) else pod
        self._foreign.pod_heard(pod, gone=after is None)
        self._turns.room.pod_heard(before, after)
        waiting = after is not None and self._turns.ours(after)
        if waiting:
            self._waiting_pod_heard(before, pod, now)
        else:
            self.queue.remove(pod.key)
            self._turns.room.forget(pod.key)
        had, has = before is not None and before.holds_room, after is not None and after.holds_room
        if has or after is None:
            self._believed.pop(pod.key, None)
        if had and not has:
            self.queue.wake(Wake.POD_LEFT, now=now)
        elif has and not had:
            self.queue.wake(Wake.POD_ARRIVED, now=now)
        if (had, before is None) != (has, after is None) and (gang := self._turns.assigner.gang_of(pod)) is not None:
            self._touched[gang] = None

    def _waiting_pod_heard(self, before: Pod | None, pod: Pod, now: float) -> None:
        if pod.key in self._believed:
            return  # an older word on a pod that has been bound since
        self.queue.add(pod.key, priority=pod.priority, now=now)
        if before is not None and asks_differently(before, pod):
            self.queue.reconsider(pod.key, now=now)
        if pod.nominated:
            self._turns.remember_nomination(pod)
