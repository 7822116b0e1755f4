"""The scheduler's loop: hear, decide, assume, write, tell. Wakes on news or at the next deadline, never by a poll."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ullage.act.evict import Preempter
from ullage.act.gang import GangPlacer
from ullage.act.place import Placer
from ullage.act.refuse import Refuser
from ullage.clock import Clock
from ullage.control.scheduling.decisions import Decision, Refused
from ullage.control.scheduling.desk import Desk
from ullage.control.scheduling.refusing import RefusalDesk, Spawn
from ullage.control.scheduling.telling import Teller
from ullage.model.action import EvictGang, Place, PlaceGang, Preempt
from ullage.model.allocation import Allocation
from ullage.model.event import Event, ObjectKey
from ullage.model.outcome import PlaceOutcome
from ullage.model.refusal import Refusal

DECISIONS_AT_A_TIME = 16
"""Then others get their turn: answers to read, news to take in."""

MODELLED_DECISION = 0.000_15
"""CPU seconds a decision costs in simulated time."""


@dataclass(frozen=True, slots=True)
class Hands:
    """What the loop acts with."""

    placer: Placer
    gang_placer: GangPlacer
    preempter: Preempter
    refuser: Refuser


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How much may be under way at once."""

    placements: int = 64
    refusals: int = 8
    """Writing why a pod waits must not slow down those that need not."""


class SchedulerLoop:
    """Runs a desk. Everything heard goes to `hear`; `run` goes on until cancelled."""

    def __init__(
        self,
        desk: Desk,
        hands: Hands,
        teller: Teller,
        clock: Clock,
        pipeline: Pipeline = Pipeline(),  # noqa: B008 - frozen
    ) -> None:
        self.desk = desk
        self._hands = hands
        self._teller = teller
        self._clock = clock
        self._pipeline = pipeline
        self._news = asyncio.Event()
        self._placing = 0
        self.on_refused: Callable[[ObjectKey, str, Refusal], None] = lambda _pod, _uid, _why: None
        self.on_reserved: Callable[[ObjectKey, Allocation | None], None] = lambda _pod, _allocation: None
        self._refusals = RefusalDesk(hands.refuser, teller, at_once=pipeline.refusals)

    @property
    def is_busy(self) -> bool:
        """Whether there are so many placements under way that each must wait for the others."""
        return 2 * self._placing >= self._pipeline.placements

    def hear(self, event: Event[Any]) -> None:
        """One thing that was heard."""
        self.desk.hear(event, now=self._clock.now())
        self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._news.clear()
                decided = self._decide_some(group.create_task)
                if decided:
                    await self._clock.charge(decided * MODELLED_DECISION)
                    await asyncio.sleep(0)
                else:
                    await self._wait()

    def _decide_some(self, spawn: Spawn) -> int:
        """Decide until the pipeline is full, nobody is left, or others should have a turn."""
        decided = 0
        began = self._clock.steady()
        while decided < DECISIONS_AT_A_TIME and self._placing < self._pipeline.placements:
            decision = self.desk.next_decision(now=self._clock.now())
            if decision is None:
                break
            decided += 1
            self._begin(decision, spawn)
            ended = self._clock.steady()
            self._teller.decided(ended - began)
            began = ended
        return decided

    def _begin(self, decision: Decision, spawn: Spawn) -> None:
        """Set going what was decided; nothing is waited for."""
        match decision:
            case Place():
                self._refusals.forget(decision.pod)
                self._placing += _slots((decision,))
                spawn(self._place(decision))
            case PlaceGang():
                for place in decision.places:
                    self._refusals.forget(place.pod)
                self._placing += _slots(decision.places)
                spawn(self._place_gang(decision))
            case EvictGang():
                spawn(self._evict_gang(decision))
            case Refused():
                self._refuse(decision, spawn)

    async def _wait(self) -> None:
        """Until there is news, a write has ended, or somebody's time has come."""
        deadline = self.desk.next_deadline()
        seconds = None if deadline is None else max(0.0, deadline - self._clock.now())
        if self._placing >= self._pipeline.placements:
            seconds = None
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def _place(self, action: Place) -> None:
        with self._slots_taken((action,)):
            began, waited = self._clock.steady(), self._waited(action)
            outcome = await self._hands.placer.perform(action)
        self._settle(outcome, waited, took=self._clock.steady() - began)

    async def _place_gang(self, action: PlaceGang) -> None:
        with self._slots_taken(action.places):
            began, waited = self._clock.steady(), [self._waited(place) for place in action.places]
            outcome = await self._hands.gang_placer.perform(action)
        self._teller.gang_ended(outcome, waited=self.desk.gang_waited(action.gang, now=self._clock.now()))
        for one, so_far in zip(outcome.outcomes, waited, strict=True):
            self._settle(one, so_far, took=self._clock.steady() - began)

    def _waited(self, action: Place) -> float:
        """Seconds until now. To be asked before the write: a watch may be faster than the answer, and end the wait."""
        return self.desk.waited(action.pod, now=self._clock.now()) or 0.0

    def _settle(self, outcome: PlaceOutcome, waited: float, *, took: float) -> None:
        self._teller.placing_ended(outcome, took=took, waited=waited + took)
        self.desk.settle(outcome, now=self._clock.now())
        self._news.set()

    async def _evict_gang(self, action: EvictGang) -> None:
        self._teller.gang_evicted(await self._hands.preempter.evict_gang(action))

    def _refuse(self, refused: Refused, spawn: Spawn) -> None:
        self._teller.refused(refused)
        for pod in refused.pods:
            self.on_refused(pod.key, pod.uid, refused.why)
        if refused.gave_up is not None:
            waited = self.desk.gang_waited(refused.gave_up, now=self._clock.now())
            self._teller.gang_gave_up(refused.pods, refused.why, waited=waited)
        self._refusals.note(refused, spawn)
        for action in refused.preempts:
            spawn(self._preempt(action))

    async def _preempt(self, action: Preempt) -> None:
        outcome = await self._hands.preempter.perform(action)
        self._teller.preempted(outcome)
        self.desk.settle_preemption(outcome, now=self._clock.now())
        self._news.set()

    @contextmanager
    def _slots_taken(self, places: Sequence[Place]) -> Iterator[None]:
        """They were counted when the work was begun. GPUs are being leased meanwhile, unless volumes come first."""
        leasing = [place for place in places if place.devices and not place.volumes]
        for place in leasing:
            self.on_reserved(place.pod, place.allocation)
        try:
            yield
        finally:
            self._placing -= _slots(places)
            self._news.set()
            for place in leasing:
                self.on_reserved(place.pod, None)


def _slots(places: Sequence[Place]) -> int:
    """How much of the pipeline placements take. A volume may take minutes to be made: others must not wait for that."""
    return sum(not place.volumes for place in places)
