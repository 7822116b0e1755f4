"""The scheduler's loop: hear, decide, assume, write, tell. Wakes on news or at the next deadline, never by a poll."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ullage.act.place import Placer
from ullage.act.refuse import Refuser
from ullage.clock import Clock
from ullage.control.scheduling.desk import Desk, Refused
from ullage.model.action import Place
from ullage.model.event import Event
from ullage.model.outcome import Placed, PlaceOutcome
from ullage.model.refusal import Refusal, Refuse
from ullage.observe.events import Announcement, EventReason, EventRecorder, Subject

DECISIONS_AT_A_TIME = 16
"""Then others get their turn: answers to read, news to take in."""

MODELLED_DECISION = 0.000_15
"""CPU seconds a decision costs in simulated time."""


@dataclass(frozen=True, slots=True)
class Hands:
    """What the loop acts with."""

    placer: Placer
    refuser: Refuser
    events: EventRecorder


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
        clock: Clock,
        pipeline: Pipeline = Pipeline(),  # noqa: B008 - frozen
    ) -> None:
        self.desk = desk
        self._hands = hands
        self._clock = clock
        self._pipeline = pipeline
        self._news = asyncio.Event()
        self._placing = 0
        self._refusing: dict[Any, Refused] = {}
        self._refusals_under_way = 0
        self.on_outcome: Callable[[PlaceOutcome], None] = lambda _: None

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

    def _decide_some(self, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> int:
        """Decide until the pipeline is full, nobody is left, or others should have a turn."""
        decided = 0
        while decided < DECISIONS_AT_A_TIME and self._placing < self._pipeline.placements:
            decision = self.desk.next_decision(now=self._clock.now())
            if decision is None:
                break
            decided += 1
            if isinstance(decision, Place):
                self._placing += 1
                spawn(self._place(decision))
            else:
                self._refuse(decision, spawn)
        return decided

    async def _wait(self) -> None:
        """Until there is news, a write has ended, or somebody's back-off is over."""
        deadline = self.desk.queue.next_deadline()
        seconds = None if deadline is None else max(0.0, deadline - self._clock.now())
        if self._placing >= self._pipeline.placements:
            seconds = None
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def _place(self, action: Place) -> None:
        try:
            outcome = await self._hands.placer.perform(action)
        finally:
            self._placing -= 1
            self._news.set()
        self.desk.settle(outcome, now=self._clock.now())
        self.on_outcome(outcome)
        self._news.set()
        if isinstance(outcome, Placed):
            what = f"Successfully assigned {action.pod} to {action.node}"
            gpus = f" with GPU {','.join(map(str, action.devices))}" if action.devices else ""
            self._tell(action, EventReason.SCHEDULED, f"{what}{gpus}: {action.why}")

    def _refuse(self, refused: Refused, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        """Say on the pod why it waits. Only the latest word on each pod is worth a write."""
        self._refusing[refused.pod.key] = refused
        if self._refusals_under_way < self._pipeline.refusals:
            self._refusals_under_way += 1
            spawn(self._write_refusals())

    async def _write_refusals(self) -> None:
        try:
            while self._refusing:
                key = next(iter(self._refusing))
                refused = self._refusing.pop(key)
                pod, why = refused.pod, Refusal(word=refused.word, message=refused.message)
                await self._hands.refuser.perform(Refuse(pod=pod.key, uid=pod.uid, why=why))
                about = Subject("Pod", pod.key, pod.uid)
                self._hands.events.tell(Announcement(about, EventReason.FAILED_SCHEDULING, refused.message))
        finally:
            self._refusals_under_way -= 1

    def _tell(self, action: Place, reason: EventReason, note: str) -> None:
        self._hands.events.tell(Announcement(Subject("Pod", action.pod, action.uid), reason, note))
