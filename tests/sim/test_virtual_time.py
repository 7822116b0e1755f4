"""Virtual time: exact, ordered, closed to the world, and loud when stuck."""

import asyncio
import heapq
import random
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ullage.clock import Clock, Instant, WallClock
from ullage.sim.virtual_time import (
    EPOCH,
    Deadlock,
    Livelock,
    RealWorldRefused,
    loop_clock,
    run_virtual,
)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_year_passes_in_no_time() -> None:
    began = time.monotonic()
    assert run_virtual(asyncio.sleep(365 * 86_400.0, result="done")) == "done"
    assert time.monotonic() - began < 5


def test_times_are_exact_and_in_the_order_of_a_plain_heap() -> None:
    """Sleepers of one loop finish exactly when and in the order a textbook event queue says."""

    def naps(sleeper: int) -> list[float]:
        rng = random.Random(sleeper)
        return [rng.choice((0.1, 1 / 3, rng.uniform(0, 90))) for _ in range(60)]

    expected: list[tuple[float, int]] = []
    queue = [(0.0, sleeper, sleeper, 0) for sleeper in range(200)]
    order = len(queue)
    while queue:
        moment, _, sleeper, turn = heapq.heappop(queue)
        expected.append((moment, sleeper))
        if turn < 60:
            heapq.heappush(queue, (moment + naps(sleeper)[turn], order, sleeper, turn + 1))
            order += 1

    seen: list[tuple[float, int]] = []

    async def nap(number: int) -> None:
        seen.append((now(), number))
        for seconds in naps(number):
            await asyncio.sleep(seconds)
            seen.append((now(), number))

    async def story() -> None:
        await asyncio.gather(*(nap(number) for number in range(200)))

    run_virtual(story())
    assert seen == expected


def test_equal_moments_keep_the_order_they_were_asked_in() -> None:
    async def story() -> list[int]:
        loop, seen = asyncio.get_running_loop(), list[int]()
        for number in range(500):
            loop.call_at(7.0, seen.append, number)
        await asyncio.sleep(8)
        return seen

    assert run_virtual(story()) == list(range(500))


def test_cancelled_timers_neither_fire_nor_move_time() -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(1000 + number, pytest.fail) for number in range(2000)]
        await asyncio.sleep(1)
        for timer in timers:
            timer.cancel()
        await asyncio.sleep(2)
        return loop.time()

    assert run_virtual(story()) == 3.0


async def waits_with_a_deadline() -> float:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), timeout=3.5)
    return now()


async def times_out() -> float:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3.5):
            await asyncio.sleep(60)
    return now()


async def hands_over_by_queue() -> float:
    queue = asyncio.Queue[float](maxsize=1)

    async def producer() -> None:
        for _ in range(7):
            await asyncio.sleep(0.5)
            await queue.put(now())

    async with asyncio.TaskGroup() as group:
        group.create_task(producer())
        got = [await queue.get() for _ in range(7)]
    return got[-1]


async def a_group_fails_as_one() -> float:
    async def fail() -> None:
        await asyncio.sleep(3.5)
        raise ValueError("broken")

    async def group_of_two() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(100))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        await group_of_two()
    return now()


async def a_cancelled_sleeper_cleans_up() -> float:
    async def sleeper() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(2.5)

    task = asyncio.create_task(sleeper())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return now()


@pytest.mark.parametrize(
    "story",
    [waits_with_a_deadline, times_out, hands_over_by_queue, a_group_fails_as_one, a_cancelled_sleeper_cleans_up],
)
def test_asyncio_works_unchanged(story: Callable[[], Coroutine[Any, Any, float]]) -> None:
    assert run_virtual(story()) == 3.5


def test_a_group_is_cancelled_in_the_order_of_its_tasks() -> None:
    async def story() -> list[int]:
        ended = list[int]()

        async def member(number: int) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                ended.append(number)

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(60):
                    group.create_task(member(number))
                await asyncio.sleep(1)
                raise ValueError
        except* ValueError:
            pass
        return ended

    assert run_virtual(story()) == list(range(60))


def test_a_deadlock_names_who_waits_and_where() -> None:
    async def waits_for_nobody() -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        await asyncio.create_task(waits_for_nobody(), name="lonely")

    with pytest.raises(Deadlock, match=r"lonely in .*waits_for_nobody at .*test_virtual_time\.py:\d+"):
        run_virtual(story())


def test_sleeping_for_ever_is_a_deadlock() -> None:
    with pytest.raises(Deadlock):
        run_virtual(asyncio.sleep(float("inf")))


def test_a_spinning_task_is_a_livelock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ullage.sim.virtual_time.STEPS_AT_ONE_INSTANT", 1000)

    async def spin() -> None:
        while True:  # noqa: ASYNC110 - spinning is the point
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match="spin"):
        run_virtual(spin())


def test_a_callback_that_breaks_ends_the_simulation() -> None:
    async def story() -> None:
        asyncio.get_running_loop().call_later(1, lambda: 1 // 0)
        await asyncio.sleep(10)
        pytest.fail("went on")

    with pytest.raises(ZeroDivisionError):
        run_virtual(story())


async def opens_a_connection() -> None:
    await asyncio.open_connection("127.0.0.1", 1)


async def starts_a_server() -> None:
    await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)


async def uses_a_thread() -> None:
    await asyncio.to_thread(time.sleep, 0)


async def starts_a_subprocess() -> None:
    await asyncio.create_subprocess_exec("true")


async def is_called_from_a_thread() -> None:
    loop, refused = asyncio.get_running_loop(), list[RealWorldRefused]()

    def intrude() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except RealWorldRefused as error:
            refused.append(error)

    thread = threading.Thread(target=intrude)
    thread.start()
    thread.join()
    raise refused[0]


@pytest.mark.parametrize(
    "outing", [opens_a_connection, starts_a_server, uses_a_thread, starts_a_subprocess, is_called_from_a_thread]
)
def test_the_real_world_is_refused(outing: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with pytest.raises(RealWorldRefused, match="virtual time has no"):
        run_virtual(outing())


def test_the_virtual_clock_starts_at_its_epoch_and_charges_time() -> None:
    async def story() -> tuple[float, float, float]:
        clock = loop_clock()
        began = clock.now()
        await clock.charge(1.5)
        await clock.charge(0)
        return began, clock.now(), clock.steady()

    assert run_virtual(story()) == (EPOCH, EPOCH + 1.5, 1.5)
    assert run_virtual(story(), epoch=Instant(100.0)) == (100.0, 101.5, 1.5)


async def test_the_wall_clock_agrees_with_the_world() -> None:
    clock: Clock = WallClock()
    before, steady = time.time(), clock.steady()
    await clock.charge(1000)
    assert before <= clock.now() < before + 100
    assert 0 <= clock.steady() - steady < 100


async def test_a_real_loop_has_no_loop_clock() -> None:
    with pytest.raises(RuntimeError, match="WallClock"):
        loop_clock()


def test_events_are_cheap_enough_for_long_simulations() -> None:
    """Far below what is measured (tens of thousands a second), so that only a blunder fails it."""

    async def story() -> None:
        async def sleeper(number: int) -> None:
            for turn in range(50):
                await asyncio.sleep(0.25 + (number * 31 + turn * 17) % 97)

        await asyncio.gather(*(sleeper(number) for number in range(400)))

    began = time.process_time()
    run_virtual(story())
    assert 20_000 / (time.process_time() - began) > 8_000
