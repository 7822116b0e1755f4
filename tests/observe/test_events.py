"""Events: told without waiting, counted when repeated, dropped when there are too many. In virtual time."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ullage
from ullage.errors import AlreadyExists, ApiError, Forbidden, NotFound, ServerFailure, Unreachable
from ullage.model.fact_event import ObjectKey
from ullage.observe.events import (
    KINDS,
    EventLimits,
    EventMessage,
    EventReason,
    EventRecorder,
    EventSeries,
    EventWriteResult,
    ObjectReference,
)
from ullage.sim.virtual_time import loop_clock, run_virtual


def about(name: str = "p", note: str = "0/3 nodes fit") -> EventMessage:
    subject = ObjectReference("Pod", ObjectKey("default", name), f"uid-{name}")
    return EventMessage(subject, EventReason.FAILED_SCHEDULING, note, topic=note)


class Desk:
    """A writer that takes its time, keeps what it wrote, and fails when it is told to."""

    def __init__(self, seconds: float = 0.1) -> None:
        self.seconds = seconds
        self.there: dict[str, EventSeries] = {}
        self.order: list[str] = []
        self.under_way = 0
        self.most_at_once = 0
        self.failures: list[ApiError | None] = []
        self.does_it_anyway = False

    async def create(self, record: EventSeries) -> None:
        await self._work()
        failure = self.failures.pop(0) if self.failures else None
        if failure is None or self.does_it_anyway:
            if record.name in self.there:
                raise AlreadyExists(record.name)
            self.there[record.name] = record
            self.order.append(record.announcement.note)
        if failure is not None:
            raise failure

    async def repeat(self, record: EventSeries) -> None:
        await self._work()
        if record.name not in self.there:
            raise NotFound(record.name)
        self.there[record.name] = record

    async def _work(self) -> None:
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.under_way -= 1

    @property
    def counts(self) -> list[int]:
        return [record.count for record in self.there.values()]


Story = Callable[[EventRecorder, Desk], Coroutine[Any, Any, None]]


def played(
    story: Story,
    *,
    pace: EventLimits = EventLimits(),  # noqa: B008 - frozen
    desk: Desk | None = None,
) -> tuple[Desk, Counter[EventWriteResult]]:
    """What the desk holds after the story, and what became of each announcement."""
    at = desk or Desk()
    fates: list[EventWriteResult] = []

    async def play() -> None:
        async with EventRecorder(at, loop_clock(), instance="s-0", pace=pace, on_fate=fates.append) as recorder:
            await story(recorder, at)

    run_virtual(play())
    return at, Counter(fates)


def test_every_reason_has_a_kind() -> None:
    assert set(KINDS) == set(EventReason)


def test_different_things_are_different_events() -> None:
    async def story(recorder: EventRecorder, _: Desk) -> None:
        for name, note in [("p", "a"), ("p", "b"), ("q", "a")]:
            recorder.record(about(name, note))

    desk, fates = played(story)
    assert desk.counts == [1, 1, 1]
    assert fates == {EventWriteResult.CREATED: 3}


def test_the_same_told_while_it_waits_is_one_event() -> None:
    async def story(recorder: EventRecorder, _: Desk) -> None:
        for _time in range(5):
            recorder.record(about())

    desk, fates = played(story)
    assert desk.counts == [5]
    assert fates == {EventWriteResult.CREATED: 1}


def test_the_same_told_within_the_hour_is_counted_on_the_event_that_is_there() -> None:
    """Servers keep Events for an hour."""

    async def story(recorder: EventRecorder, _: Desk) -> None:
        for pause in (0, 3299, 3299, 3299, 3301, 10):
            await asyncio.sleep(pause)
            recorder.record(about())
            await asyncio.sleep(0.5)

    desk, fates = played(story)
    assert desk.counts == [4, 2]
    assert fates == {EventWriteResult.CREATED: 2, EventWriteResult.REPEATED: 4}


def test_one_event_of_a_pod_and_a_reason_however_its_numbers_change() -> None:
    async def story(recorder: EventRecorder, _: Desk) -> None:
        for number in range(200):
            note = f"0/5000 nodes fit: {4000 - number} TooFewGpus, {1000 + number} NodeNotReady"
            recorder.record(replace(about(note=note), topic="TooFewGpus"))
            await asyncio.sleep(1)

    desk, fates = played(story)
    assert desk.counts == [200]
    assert desk.order == ["0/5000 nodes fit: 4000 TooFewGpus, 1000 NodeNotReady"]
    assert fates[EventWriteResult.CREATED] == 1


def test_what_waits_to_be_written_is_written_in_its_latest_words() -> None:
    async def story(recorder: EventRecorder, _: Desk) -> None:
        for words in ("1 of 4 members", "4 of 4 members"):
            recorder.record(replace(about(note=words), topic="GangIncomplete"))

    desk, _ = played(story)
    assert desk.order == ["4 of 4 members"]


def test_the_same_told_while_its_first_telling_is_written_makes_no_second_event() -> None:
    async def story(recorder: EventRecorder, _: Desk) -> None:
        recorder.record(about())
        await asyncio.sleep(0.05)
        recorder.record(about())

    desk, _ = played(story)
    assert desk.counts == [2]


def test_an_event_that_has_expired_is_made_again() -> None:
    async def story(recorder: EventRecorder, desk: Desk) -> None:
        recorder.record(about())
        await asyncio.sleep(1)
        desk.there.clear()
        recorder.record(about())

    desk, fates = played(story)
    assert desk.counts == [1]
    assert fates == {EventWriteResult.CREATED: 2}


def test_the_oldest_is_dropped_when_too_much_waits() -> None:
    async def story(recorder: EventRecorder, _: Desk) -> None:
        for number in range(10):
            recorder.record(about(note=str(number)))

    desk, fates = played(story, pace=EventLimits(most_waiting=3, at_once=1))
    assert desk.order == ["7", "8", "9"]
    assert fates == {EventWriteResult.DROPPED: 7, EventWriteResult.CREATED: 3}


def test_only_so_many_are_written_at_once() -> None:
    async def story(recorder: EventRecorder, _: Desk) -> None:
        for number in range(20):
            recorder.record(about(note=str(number)))

    desk, _ = played(story, pace=EventLimits(at_once=4))
    assert desk.most_at_once == 4
    assert len(desk.there) == 20


@pytest.mark.parametrize(
    ("failures", "done", "expected"),
    [
        pytest.param([Unreachable("x")], False, EventWriteResult.CREATED, id="once-unreachable"),
        pytest.param([Unreachable("x")], True, EventWriteResult.CREATED, id="written-and-the-answer-lost"),
        pytest.param([ServerFailure("x")] * 3, False, EventWriteResult.FAILED, id="the-server-is-broken"),
        pytest.param([Forbidden("x")], False, EventWriteResult.FAILED, id="not-allowed"),
    ],
)
def test_failures_are_counted_and_the_next_one_is_written(
    failures: list[ApiError | None], done: bool, expected: EventWriteResult
) -> None:
    desk = Desk()
    desk.failures, desk.does_it_anyway = failures, done

    async def story(recorder: EventRecorder, _: Desk) -> None:
        recorder.record(about(note="first"))
        await asyncio.sleep(10)
        recorder.record(about(note="second"))

    _, fates = played(story, desk=desk)
    assert fates == Counter([expected, EventWriteResult.CREATED])
    assert len(desk.there) == 1 + (expected is EventWriteResult.CREATED)


def test_closing_writes_what_waits_and_then_drops_what_is_left() -> None:
    async def story(recorder: EventRecorder, _: Desk) -> None:
        for number in range(10):
            recorder.record(about(note=str(number)))

    pace = EventLimits(at_once=1, farewell=5.0)
    assert played(story, pace=pace)[1] == {EventWriteResult.CREATED: 10}
    slow, fates = played(story, pace=pace, desk=Desk(seconds=2.0))
    assert len(slow.there) == 2
    assert fates[EventWriteResult.DROPPED] == 7


def test_telling_after_the_end_is_harmless() -> None:
    fates: list[EventWriteResult] = []

    async def story() -> None:
        async with EventRecorder(Desk(), loop_clock(), instance="s-0", on_fate=fates.append) as recorder:
            pass
        recorder.record(about())

    run_virtual(story())
    assert fates == [EventWriteResult.DROPPED]


def test_old_series_are_forgotten() -> None:
    async def story(recorder: EventRecorder, _: Desk) -> None:
        for number in range(50):
            recorder.record(about(note=str(number)))
        await asyncio.sleep(3301)
        recorder.record(about(note="new"))
        await asyncio.sleep(1)
        assert len(recorder._series) == 1

    played(story)


class Rush:
    """More urgent writes, as long as somebody says so."""

    def __init__(self) -> None:
        self.is_on = True


async def _told_in_a_rush(count: int, rush: Rush, desk: Desk, pace: EventLimits) -> None:
    async with EventRecorder(desk, loop_clock(), instance="s-0", pace=pace) as recorder:
        recorder.others_are_urgent = lambda: rush.is_on
        for number in range(count):
            recorder.record(about(f"p-{number}"))
        await asyncio.sleep(1.05)
        rush.is_on = False
        await asyncio.sleep(0.15)


def test_beside_more_urgent_writes_few_are_made_and_then_all() -> None:
    desk, rush = Desk(), Rush()
    run_virtual(_told_in_a_rush(90, rush, desk, EventLimits(at_once=40, at_once_beside_urgent=2)))
    assert desk.most_at_once == 40, "once nothing urgent is left, all hands write"
    assert len(desk.there) == 90


@pytest.mark.parametrize(
    ("pace", "at_once"),
    [
        pytest.param(EventLimits(at_once=8, at_once_beside_urgent=2), 2, id="few at once, as long as they may wait"),
        pytest.param(EventLimits(at_once=8, at_once_beside_urgent=2, patience=0.5), 8, id="not for longer than this"),
        pytest.param(
            EventLimits(at_once=8, at_once_beside_urgent=2, most_waiting=80), 8, id="nor until some are dropped"
        ),
    ],
)
def test_how_long_what_is_told_stands_back(pace: EventLimits, at_once: int) -> None:
    desk = Desk()

    async def story() -> None:
        async with EventRecorder(desk, loop_clock(), instance="s-0", pace=pace) as recorder:
            recorder.others_are_urgent = lambda: True
            for number in range(60):
                recorder.record(about(f"p-{number}"))
            await asyncio.sleep(0.95)
            assert desk.most_at_once == at_once

    run_virtual(story())
    assert len(desk.there) == 60, "closing writes what is left"


def test_every_reason_is_recorded_by_some_component() -> None:
    package = Path(ullage.__file__).parent
    texts = (file.read_text(encoding="utf-8") for file in package.rglob("*.py") if file.name != "events.py")
    recorded = {name for text in texts for name in re.findall(r"EventReason\.([A-Z_]+)", text)}
    assert [reason.name for reason in EventReason if reason.name not in recorded] == []
