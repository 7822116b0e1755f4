"""Whose turn it is gets a decision: a pod on its own, or a gang as a whole with the first of its members. No I/O.

What is decided counts at once: seats hold room in the picture, refused pods sleep until news that can help them, and
those who have to leave for somebody are no longer counted on.
"""

from collections.abc import Mapping, Sequence

from ullage.control.scheduling.decisions import Decision, Refused
from ullage.control.scheduling.gang_watch import GangWatch, StandsBack
from ullage.control.scheduling.room_making import RoomMaking
from ullage.decide.assigning import Assigner, waits
from ullage.decide.fit.first_consumer import promises_on, waiting_claims
from ullage.decide.gang.fate import EvictWhole, GiveUp, Whole
from ullage.decide.gang.seating import GangAsk, GangRefusal, GangSeats
from ullage.decide.hopeless import hopeless_reason, is_hopeless
from ullage.decide.preempt.preempting import NoPreemption, NoVictims
from ullage.decide.seat.deciding import Refusal as NoSeat
from ullage.decide.seat.deciding import Seat
from ullage.model.action import EvictGang, Place, PlaceGang, Preempt, Victim
from ullage.model.device import MILLI_GPU
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.refusal import Refusal
from ullage.model.verdict import CURES, Reason, Verdict
from ullage.state.foreign import ForeignHolds
from ullage.state.placements import Placements
from ullage.state.queue import SchedulingQueue


class Turns:
    """Decides for one scheduler. `profiles` are policies by scheduler name."""

    def __init__(
        self, profiles: Mapping[str, str], placements: Placements, queue: SchedulingQueue, foreign: ForeignHolds
    ) -> None:
        self.gangs = GangWatch()
        self.room = RoomMaking(placements)
        self._placements = placements
        self._queue = queue
        self._foreign = foreign
        by_policy = {policy: Assigner(placements, policy) for policy in dict.fromkeys(profiles.values())}
        self._assigners = {name: by_policy[policy] for name, policy in profiles.items()}
        self._policies = dict(profiles)
        self.assigner = self._assigners[next(iter(profiles))]
        """Any of them, for questions that no policy answers otherwise."""

    def ours(self, pod: Pod) -> bool:
        """It waits for us to place it."""
        return pod.scheduler in self._assigners and waits(pod) and not pod.gated

    def decide(self, pod: Pod, *, now: float) -> Decision:
        """One pod's turn."""
        assigner = self._assigners[pod.scheduler]
        ready = assigner.entitled(pod)
        if isinstance(ready, Verdict):
            self._queue.refuse(pod.key, CURES[ready.reason].wakes_on, now=now)
            message = ready.detail or ready.reason.value
            hopeless = is_hopeless(pod, (ready.reason,), self._placements)
            why = Refusal(word=ready.reason.value, message=message, hopeless=hopeless)
            return Refused(pods=(pod,), why=why, unnominate=self.room.forget(pod.key))
        if pod.nominated:
            self.room.nominate(ready, self.room.with_node(ready).nominated)
        gang = assigner.gang_of(pod)
        if gang is not None:
            return self._decide_gang(assigner, gang, now)
        return self._decide_pod(assigner, self.room.with_node(ready), now)

    def remember_nomination(self, pod: Pod) -> None:
        """A waiting pod says that a node is being made free for it: by this scheduler, perhaps before it started."""
        ready = self._assigners[pod.scheduler].entitled(pod)
        if isinstance(ready, Pod):
            self.room.nominate(ready, self.room.with_node(ready).nominated)

    def look_at(self, gang: ObjectKey, *, now: float) -> EvictGang | Refused | None:
        """A gang of which something was heard, or whose moment has come, whether or not one of it waits."""
        ask = self.assigner.gang_ask(gang, self.ours)
        if not ask.min_member or not (ask.bound or ask.pending):
            self.gangs.forget(gang)
            return None
        fate = self.gangs.judge(ask, now=now, timeout=self._timeout(gang))
        if isinstance(fate, Whole):
            self.gangs.forget(gang)
        elif isinstance(fate, EvictWhole):
            return _eviction(ask, fate.why)
        elif isinstance(fate, GiveUp):
            return self._stand_back(ask, fate, now)
        else:
            # Standing back may be over, or a member has come: whoever of it waits is tried again.
            for pod in ask.pending:
                self._queue.reconsider(pod.key, now=now)
        return None

    def _decide_pod(self, assigner: Assigner, pod: Pod, now: float) -> Place | Refused:
        with self._foreign.lifted((pod.uid,)):
            answer = assigner.assign_pod(pod, self.room.nominated, now=now)
        if isinstance(answer, Seat):
            return self._place(pod, answer)
        self._queue.refuse(pod.key, answer.wakes_on, now=now)
        preempts = self.room.for_pod(assigner, pod, now=now)
        return self._refused((pod,), answer, preempts)

    def _decide_gang(self, assigner: Assigner, gang: ObjectKey, now: float) -> Decision:
        ask = assigner.gang_ask(gang, self.ours)
        fate = self.gangs.judge(ask, now=now, timeout=self._timeout(gang))
        if isinstance(fate, EvictWhole):
            self._put_back(ask.pending, now)
            return _eviction(ask, fate.why)
        if isinstance(fate, GiveUp | StandsBack):
            return self._stand_back(ask, fate, now)
        with self._foreign.lifted(pod.uid for pod in ask.pending):
            answer = assigner.assign_gang(ask, self.room.nominated, now=now)
        if isinstance(answer, GangSeats):
            return self._place_gang(ask, answer, now)
        for pod in ask.pending:
            self._queue.refuse(pod.key, answer.wakes_on, now=now)
        return self._refused(ask.pending, answer, self.room.for_gang(assigner, ask, now=now))

    def _place(self, pod: Pod, seat: Seat) -> Place:
        choice, state = seat.choice, self._placements.state
        volumes = waiting_claims(pod, state) if pod.shape.claims else ()
        return Place(
            pod=pod.key,
            uid=pod.uid,
            resource_version=pod.resource_version,
            node=seat.node,
            why=f"best of {seat.fitting} that fit, by {self._policies[pod.scheduler]}",
            devices=choice.ids if choice is not None else (),
            milli=choice.share_milli if choice is not None else MILLI_GPU,
            visible=seat.uuids,
            volumes=volumes,
            promises=promises_on(pod, state.nodes[seat.node], state) if volumes else (),
        )

    def _place_gang(self, ask: GangAsk, answer: GangSeats, now: float) -> PlaceGang | Place:
        """Those beyond what the gang needs that got no seat wait for one like anybody else."""
        for key in answer.waiting:
            self._queue.retry(key, now=now)
        places = tuple(self._place(pod, answer.seats[pod.key]) for pod in ask.pending if pod.key in answer.seats)
        count = len(ask.bound) + len(places)
        return PlaceGang(gang=ask.key, places=places, why=f"{count} members of {ask.min_member} it needs, at once")

    def _refused(
        self, pods: tuple[Pod, ...], answer: NoSeat | GangRefusal, preempts: tuple[Preempt, ...] | NoPreemption
    ) -> Refused:
        for_good = (hopeless_reason(pod, answer.reasons, self._placements) for pod in pods)
        hopeless = next((reason for reason in for_good if reason is not None), None)
        word = _word(answer) if hopeless is None else hopeless.value
        why = Refusal(word=word, message=str(answer), hopeless=hopeless is not None)
        if not isinstance(preempts, NoPreemption):
            return Refused(pods=pods, why=why, preempts=preempts)
        keep = preempts.reason is NoVictims.VICTIMS_LEAVING
        nominated = [] if keep else [self.room.forget(pod.key) for pod in pods]
        return Refused(pods=pods, why=why, unnominate=any(nominated))

    def _stand_back(self, ask: GangAsk, fate: GiveUp | StandsBack, now: float) -> Refused:
        for pod in ask.pending:
            self._queue.refuse(pod.key, (), now=now)
        nominated = [self.room.forget(pod.key) for pod in ask.pending]
        message = fate.why if isinstance(fate, GiveUp) else "it gave up a moment ago and lets others go first"
        why = Refusal(word=Reason.GANG_INCOMPLETE.value, message=f"gang {ask.key}: {message}")
        gave_up = ask.key if isinstance(fate, GiveUp) else None
        return Refused(pods=ask.pending, why=why, gave_up=gave_up, unnominate=any(nominated))

    def _put_back(self, pods: Sequence[Pod], now: float) -> None:
        for pod in pods:
            self._queue.retry(pod.key, now=now)

    def _timeout(self, gang: ObjectKey) -> float | None:
        group = self._placements.state.groups.get(gang)
        return None if group is None else group.timeout


def _word(answer: NoSeat | GangRefusal) -> str:
    """The most telling reason: of a gang the one its first member without a seat was given."""
    return str(next(iter(answer.reasons), "NoNodes"))


def _eviction(ask: GangAsk, why: str) -> EvictGang:
    victims = tuple(
        Victim(pod=pod.key, uid=pod.uid, node=pod.node, priority=pod.priority)
        for pod in ask.bound
        if not pod.phase.over
    )
    return EvictGang(gang=ask.key, victims=victims, why=f"gang {ask.key}: {why}")
