"""Simulated processes: thinking takes their own time only, and the dead reach nobody."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest

from ullage.errors import Unreachable
from ullage.kube.client.transport import Request, Response
from ullage.sim.process import ProcessRun, SimulatedProcess
from ullage.sim.scaled_time import run_scaled
from ullage.sim.virtual_time import Deadlock, run_virtual

GET = Request("GET", "/things")
DELETE = Request("DELETE", "/things/one")


class Wire:
    """Answers after a second, says a line every second, and remembers what reached the other end."""

    def __init__(self, arrived: list[str]) -> None:
        self.arrived = arrived
        self.is_cut = False

    async def send(self, request: Request) -> Response:
        if self.is_cut:
            raise Unreachable("cut")
        self.arrived.append(request.method)
        await asyncio.sleep(1)
        return Response(200, b"{}")

    async def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:  # noqa: ARG002 - signature
        while not self.is_cut:
            await asyncio.sleep(1)
            yield [b"line"]

    async def close(self) -> None:
        self.is_cut = True

    def cut(self) -> None:
        self.is_cut = True


def now() -> float:
    return asyncio.get_running_loop().time()


async def run_program(
    program: Callable[[ProcessRun], Coroutine[Any, Any, None]], *, crash_at: float | None = None
) -> list[str]:
    """One process with that program, crashed at a moment or run for 100 s; gives back what arrived at its server."""
    arrived: list[str] = []
    process = SimulatedProcess("worker", lambda: Wire(arrived), program)
    process.start()
    await asyncio.sleep(100 if crash_at is None else crash_at)
    if crash_at is not None:
        process.crash()
        await asyncio.sleep(100)
        assert not process.alive
    return arrived


async def sleeps(life: ProcessRun) -> None:  # noqa: ARG001 - one of several ways to wait
    await asyncio.sleep(1)


async def asks(life: ProcessRun) -> None:
    await life.transport.send(GET)


async def watches(life: ProcessRun) -> None:
    async for _ in life.transport.stream(GET):
        return


@pytest.mark.parametrize("wait", [sleeps, asks, watches])
def test_a_thinking_process_hears_nothing_until_it_is_done(wait: Callable[[ProcessRun], Awaitable[None]]) -> None:
    heard: list[tuple[str, float]] = []

    def program(name: str, cost: float) -> Callable[[ProcessRun], Coroutine[Any, Any, None]]:
        async def listen(life: ProcessRun) -> None:
            await wait(life)
            heard.append((name, now()))

        async def main(life: ProcessRun) -> None:
            listening = asyncio.create_task(listen(life))
            await asyncio.sleep(0.5)
            await life.charge(cost)
            heard.append((f"{name} thought", now()))
            await listening

        return main

    async def story() -> None:
        arrived: list[str] = []
        for name, cost in (("thinker", 5.0), ("idler", 0.0)):
            SimulatedProcess(name, lambda: Wire(arrived), program(name, cost)).start()
        await asyncio.sleep(60)

    run_virtual(story())
    assert heard == [("idler thought", 0.5), ("idler", 1.0), ("thinker thought", 5.5), ("thinker", 5.5)]


def test_thoughts_of_one_thread_follow_each_other() -> None:
    ended: list[float] = []

    async def main(life: ProcessRun) -> None:
        async def think() -> None:
            await life.charge(2)
            ended.append(now())

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(think())

    run_virtual(run_program(main))
    assert ended == [2.0, 4.0, 6.0]


def test_another_thread_of_the_process_goes_on_while_the_first_thinks() -> None:
    ticks: list[float] = []

    async def tick() -> None:
        for _ in range(4):
            await asyncio.sleep(1)
            ticks.append(now())

    async def main(life: ProcessRun) -> None:
        life.spawn(tick(), name="renewal", thread="renewal")
        await life.charge(10)

    run_virtual(run_program(main))
    assert ticks == [1.0, 2.0, 3.0, 4.0]


def test_a_frozen_process_stands_still_in_all_threads() -> None:
    ticks: list[float] = []

    async def tick() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            ticks.append(now())

    async def main(life: ProcessRun) -> None:
        life.spawn(tick(), name="renewal", thread="renewal")
        await asyncio.sleep(1.5)
        life.freeze(10)

    run_virtual(run_program(main))
    assert ticks == [1.0, 11.5, 12.5]


def test_a_deadline_that_passes_while_thinking_is_noticed_afterwards() -> None:
    seen: list[float] = []

    async def main(life: ProcessRun) -> None:
        async def wait() -> None:
            try:
                async with asyncio.timeout(2):
                    await asyncio.Event().wait()
            except TimeoutError:
                seen.append(now())

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(1)
        await life.charge(5)
        await waiting

    run_virtual(run_program(main))
    assert seen == [6.0]


async def deletes_in_the_end(life: ProcessRun) -> None:
    try:
        await asyncio.sleep(50)
    finally:
        await life.transport.send(DELETE)


async def deletes_after_a_pause(life: ProcessRun) -> None:
    try:
        await asyncio.sleep(50)
    finally:
        await asyncio.sleep(1)
        await life.transport.send(DELETE)


async def never_gives_up(life: ProcessRun) -> None:
    while True:
        try:
            await asyncio.sleep(50)
            await life.transport.send(DELETE)
        except (asyncio.CancelledError, Unreachable):
            continue


async def deletes_from_a_child(life: ProcessRun) -> None:
    asyncio.create_task(deletes_in_the_end(life))  # noqa: RUF006 - the process keeps it
    async with asyncio.TaskGroup() as group:
        group.create_task(never_gives_up(life))
        group.create_task(deletes_after_a_pause(life))


async def deletes_after_thinking(life: ProcessRun) -> None:
    try:
        await life.charge(50)
    finally:
        await life.transport.send(DELETE)


async def is_about_to_start_a_child(life: ProcessRun) -> None:
    await asyncio.sleep(10)
    asyncio.create_task(deletes_in_the_end(life))  # noqa: RUF006 - the process keeps it
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    "program",
    [
        deletes_in_the_end,
        deletes_after_a_pause,
        never_gives_up,
        deletes_from_a_child,
        deletes_after_thinking,
        is_about_to_start_a_child,
    ],
)
def test_the_clean_up_of_a_crashed_process_reaches_nobody(
    program: Callable[[ProcessRun], Coroutine[Any, Any, None]],
) -> None:
    assert run_virtual(run_program(program, crash_at=10)) == []


def test_without_a_crash_the_same_clean_up_does_arrive() -> None:
    assert run_virtual(run_program(deletes_in_the_end)) == ["DELETE"]


def test_a_process_can_crash_itself_in_the_middle_of_a_line() -> None:
    arrived: list[str] = []

    async def main(life: ProcessRun) -> None:
        await life.transport.send(GET)
        process.crash()
        await life.transport.send(DELETE)

    process = SimulatedProcess("worker", lambda: Wire(arrived), main)

    async def story() -> None:
        process.start()
        await asyncio.sleep(10)

    run_virtual(story())
    assert arrived == ["GET"]


def test_a_stopped_process_cleans_up_with_the_api_at_hand() -> None:
    arrived: list[str] = []

    async def story() -> float:
        process = SimulatedProcess("worker", lambda: Wire(arrived), deletes_in_the_end)
        process.start()
        await asyncio.sleep(10)
        await process.stop()
        assert not process.alive
        return now()

    assert run_virtual(story()) == 11.0
    assert arrived == ["DELETE"]


def test_a_restarted_process_has_a_new_life_and_the_old_one_stays_dead() -> None:
    arrived: list[str] = []
    lives: list[ProcessRun] = []

    async def main(life: ProcessRun) -> None:
        lives.append(life)
        await life.transport.send(GET)
        await asyncio.sleep(50)

    async def story() -> None:
        process = SimulatedProcess("worker", lambda: Wire(arrived), main)
        process.start()
        with pytest.raises(RuntimeError, match="is running"):
            process.start()
        await asyncio.sleep(10)
        process.restart()
        await asyncio.sleep(10)
        assert process.alive
        assert process.life is lives[1]
        with pytest.raises(Unreachable, match="worker is dead"):
            await lives[0].transport.send(DELETE)

    run_virtual(story())
    assert arrived == ["GET", "GET"]


def test_a_broken_process_ends_the_simulation() -> None:
    async def main(life: ProcessRun) -> None:  # noqa: ARG001 - a program
        await asyncio.sleep(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_virtual(run_program(main))


def test_a_deadlock_is_found_inside_a_process() -> None:
    async def main(life: ProcessRun) -> None:  # noqa: ARG001 - a program
        await asyncio.Event().wait()

    async def story() -> None:
        SimulatedProcess("worker", lambda: Wire([]), main).start()
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"worker/main in .*main at .*test_process\.py:\d+"):
        run_virtual(story())


def test_on_a_scaled_loop_a_crash_is_as_final() -> None:
    assert run_scaled(run_program(deletes_in_the_end, crash_at=10), speed=2000) == []
