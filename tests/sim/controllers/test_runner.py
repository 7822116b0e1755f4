"""The work queue: nothing twice at once, nothing forgotten, failures later and later."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.sim.controllers.things import at, seconds
from ullage.errors import Conflict, TooManyRequests
from ullage.sim.controllers.controller_loop import ControllerLoop
from ullage.sim.controllers.workqueue import WorkQueue
from ullage.sim.virtual_time import loop_clock, run_virtual

T = TypeVar("T")


def in_virtual_time(story: Callable[[], Awaitable[T]]) -> T:
    async def told() -> T:
        return await story()

    return run_virtual(told())


def test_a_key_waits_once_however_often_it_is_added() -> None:
    async def story() -> list[str]:
        queue: WorkQueue[str] = WorkQueue(loop_clock())
        for key in ("b", "a", "b", "a"):
            queue.add(key)
        return [await queue.take(), await queue.take(), "idle" if not queue._waiting else "more"]

    assert in_virtual_time(story) == ["b", "a", "idle"]


def test_a_key_in_hand_is_queued_again_only_when_it_is_done() -> None:
    async def story() -> list[bool]:
        queue: WorkQueue[str] = WorkQueue(loop_clock())
        queue.add("a")
        await queue.take()
        queue.add("a")
        with_key_in_hand = bool(queue._waiting)
        queue.done("a")
        return [with_key_in_hand, bool(queue._waiting)]

    assert in_virtual_time(story) == [False, True]


def test_the_earliest_of_several_moments_counts() -> None:
    async def story() -> float | None:
        clock = loop_clock()
        queue: WorkQueue[str] = WorkQueue(clock)
        for moment in (20, 5, 10):
            queue.add_at("a", at(moment))
        await queue.take()
        return seconds(clock.now())

    assert in_virtual_time(story) == 5


def test_failures_wait_twice_as_long_each_time_and_start_anew_after_a_success() -> None:
    moments: list[float | None] = []

    async def story() -> None:
        clock = loop_clock()

        async def sync(_: str) -> None:
            moments.append(seconds(clock.now()))
            if len(moments) in (1, 2, 3, 5):
                raise Conflict("someone wrote first")

        actor: ControllerLoop[str] = ControllerLoop("test", sync, clock, workers=1)
        actor.queue.add("a")
        task = asyncio.create_task(actor.run())
        await asyncio.sleep(1)
        actor.queue.add("a")
        await asyncio.sleep(1)
        task.cancel()

    in_virtual_time(story)
    assert moments == [0, 0.005, 0.015, 0.035, 1, 1.005]


def test_a_server_that_names_a_time_is_not_asked_before() -> None:
    moments: list[float | None] = []

    async def story() -> None:
        clock = loop_clock()

        async def sync(_: str) -> None:
            moments.append(seconds(clock.now()))
            if len(moments) == 1:
                raise TooManyRequests("later", retry_after=7.0)

        actor: ControllerLoop[str] = ControllerLoop("test", sync, clock)
        actor.queue.add("a")
        task = asyncio.create_task(actor.run())
        await asyncio.sleep(30)
        task.cancel()

    in_virtual_time(story)
    assert moments == [0, 7]


def test_a_cancelled_taker_does_not_swallow_a_key() -> None:
    async def story() -> str:
        queue: WorkQueue[str] = WorkQueue(loop_clock())
        leaving = asyncio.create_task(queue.take())
        staying = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        queue.add("a")
        leaving.cancel()
        async with asyncio.timeout(5):
            return await staying

    assert in_virtual_time(story) == "a"
