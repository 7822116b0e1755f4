"""Scaled time: faster than the world, exact, open to it, and able to stand still."""

import asyncio
import threading
import time

from ullage.sim.scaled_time import ScaledLoop, run_scaled
from ullage.sim.virtual_time import loop_clock, run_virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def test_the_scaled_loop_runs_faster_than_the_world_with_real_sockets() -> None:
    async def story() -> float:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            assert await reader.readline() == b"hello\n"
            writer.close()
        clock = loop_clock()
        before = clock.now()
        await asyncio.sleep(60)
        return clock.now() - before

    began = time.monotonic()
    passed = run_scaled(story(), speed=200)
    real = time.monotonic() - began
    assert passed >= 60
    assert 0.3 <= real < 20


def test_a_scaled_loop_that_is_kept_busy_falls_behind_instead_of_leaping() -> None:
    async def story() -> tuple[float, list[float]]:
        before = now()
        time.sleep(0.3)  # noqa: ASYNC251 - a step that takes long
        await asyncio.sleep(0)
        stood = now() - before
        fired: list[float] = []
        loop = asyncio.get_running_loop()
        for delay in (3.0, 1.0, 2.0):
            loop.call_at(before + delay, lambda: fired.append(now() - before))
        await asyncio.sleep(5)
        return stood, fired

    assert run_scaled(story(), speed=1000) == (0.0, [1.0, 2.0, 3.0])


def test_a_scaled_loop_that_is_late_loses_what_it_cannot_catch_up() -> None:
    async def story() -> None:
        for _ in range(4):
            time.sleep(0.2)  # noqa: ASYNC251 - as much as it asks for
            await asyncio.sleep(1.0)

    began = time.monotonic()
    run_scaled(story(), speed=20)
    assert 0.8 <= time.monotonic() - began < 5


def test_scaled_time_is_exact_whatever_comes_in_from_outside() -> None:
    """Timers fire at their own instants, in one order, while a thread keeps waking the loop."""

    async def story(waking: bool) -> list[tuple[int, float]]:
        loop, seen, stop = asyncio.get_running_loop(), list[tuple[int, float]](), threading.Event()

        def wake() -> None:
            while not stop.wait(0.002):
                loop.call_soon_threadsafe(lambda: None)

        async def sleeper(number: int) -> None:
            for turn in range(20):
                await asyncio.sleep(0.1 + (number * 31 + turn * 17) % 7 / 10)
                seen.append((number, now()))

        thread = threading.Thread(target=wake)
        if waking:
            thread.start()
        await asyncio.gather(*(sleeper(number) for number in range(20)))
        stop.set()
        return seen

    assert run_scaled(story(True), speed=30) == run_scaled(story(False), speed=200) == run_virtual(story(False))


def test_a_paused_loop_answers_and_goes_on_where_it_was() -> None:
    async def story() -> tuple[bool, float, float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScaledLoop)
        answered = asyncio.Event()
        loop.pause()
        paused_at = now()
        threading.Timer(0.2, lambda: loop.call_soon_threadsafe(answered.set)).start()
        slept = asyncio.ensure_future(asyncio.sleep(5))
        await answered.wait()
        stood = now() == paused_at and not slept.done() and loop.paused
        loop.resume()
        await slept
        return stood, now() - paused_at, loop.speed

    began = time.monotonic()
    assert run_scaled(story(), speed=50) == (True, 5.0, 50)
    assert time.monotonic() - began >= 0.29


def test_a_new_speed_counts_from_now_on() -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScaledLoop)
        loop.speed = 1000.0
        await asyncio.sleep(60)
        return now()

    began = time.monotonic()
    assert run_scaled(story(), speed=1) == 60.0
    assert time.monotonic() - began < 10


def test_a_timer_far_away_keeps_nobody_from_waiting() -> None:
    """More milliseconds than the system can wait for at once: a watch without end, and nothing else to do yet."""

    async def story() -> float:
        loop = asyncio.get_running_loop()
        loop.call_later(1e9, lambda: None)
        came = asyncio.Event()
        threading.Timer(0.1, loop.call_soon_threadsafe, (came.set,)).start()
        await came.wait()
        return now()

    assert 2.0 < run_scaled(story(), speed=30) < 1e6
