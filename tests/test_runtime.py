"""Loop runtime in virtual time: changes, deadlines, pauses, concurrent intents, sliced plans."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from ullage.act.concurrency import ended
from ullage.model.stepper import Stepper, finish
from ullage.model.units import Seconds
from ullage.runtime import ActionRunner, LoopHealth, LoopTasks, Pacing, Wakeup, drive, run_reconciler, seconds_until
from ullage.sim.virtual_time import loop_clock, run_virtual

NO_PAUSE = Pacing()


def at() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Recorded:
    """A reconciler that notes when it runs."""

    pacing: Pacing = NO_PAUSE
    takes: float = 0.0
    wait: float | None = None
    again: int = 0
    """Runs that ask for another at once."""
    ran_at: list[float] = field(default_factory=list)

    def longest_wait(self) -> float | None:
        return self.wait

    async def reconcile(self) -> bool:
        self.ran_at.append(at())
        if self.takes:
            await asyncio.sleep(self.takes)
        self.again -= 1
        return self.again >= 0


def runs(loop: Recorded, changes: tuple[float, ...], until: float) -> list[float]:
    """Times at which the loop ran, with changes at these times."""

    async def live() -> None:
        wakeup = Wakeup()
        running = asyncio.create_task(run_reconciler(loop, wakeup, loop_clock()))
        for moment in changes:
            asyncio.get_running_loop().call_at(moment, wakeup.set)
        await asyncio.sleep(until)
        await ended(running)

    run_virtual(live())
    return loop.ran_at


@pytest.mark.parametrize(
    ("loop", "changes", "expected"),
    [
        pytest.param(Recorded(), (3.0, 7.0), [0.0, 3.0, 7.0], id="on-every-change"),
        pytest.param(Recorded(wait=4.0), (), [0.0, 4.0, 8.0], id="at-deadlines"),
        pytest.param(Recorded(wait=4.0), (1.0,), [0.0, 1.0, 5.0, 9.0], id="whichever-is-first"),
        pytest.param(Recorded(wait=-1.0, takes=6.0), (), [0.0, 6.0], id="a-deadline-that-has-passed-is-due-now"),
        pytest.param(Recorded(takes=2.0), (1.0,), [0.0, 2.0], id="a-change-during-a-run-causes-another"),
        pytest.param(Recorded(again=2, takes=1.0), (), [0.0, 1.0, 2.0], id="again-without-waiting"),
        pytest.param(
            Recorded(pacing=Pacing(before_run=1.0)), (3.0, 3.5, 3.9), [0.0, 4.0], id="a-burst-of-changes-is-one-run"
        ),
        pytest.param(Recorded(pacing=Pacing(after_run=5.0)), (1.0, 2.0), [0.0, 5.0], id="not-sooner-than-after-run"),
        pytest.param(
            Recorded(pacing=Pacing(after_run=1.0, rest_factor=3.0), takes=1.0), (2.0,), [0.0, 4.0], id="rest-factor"
        ),
    ],
)
def test_when_a_loop_runs(loop: Recorded, changes: tuple[float, ...], expected: list[float]) -> None:
    assert runs(loop, changes, until=9.5) == expected


def test_a_pause_of_nothing_does_not_let_others_run() -> None:
    async def live() -> list[str]:
        order: list[str] = []
        wakeup = Wakeup()

        class Again(Recorded):
            async def reconcile(self) -> bool:
                order.append("run")
                return len(order) < 3

        running = asyncio.create_task(run_reconciler(Again(), wakeup, loop_clock()))
        asyncio.get_running_loop().call_soon(order.append, "other")
        await asyncio.sleep(1)
        await ended(running)
        return order

    assert run_virtual(live()) == ["run", "run", "run", "other"]


def test_seconds_until_a_deadline_are_never_negative() -> None:
    assert [seconds_until(at, 10.0) for at in (None, 3.0, 10.5)] == [None, 0.0, 0.5]


def test_a_run_that_takes_too_long_is_noticed_and_waiting_is_not() -> None:
    async def live() -> list[str]:
        health = LoopHealth("provisioning", loop_clock().steady, limit=300.0)
        running = asyncio.create_task(run_reconciler(Recorded(takes=301.5, wait=1e6), Wakeup(), loop_clock(), health))
        found = []
        for moment in (1.0, 300.0, 301.0, 5000.0):
            await asyncio.sleep(moment - at())
            found.append(health.stuck())
        await ended(running)
        return found

    assert run_virtual(live()) == ["", "", "provisioning has been in one round for 301 s", ""]


class Actions:
    """An ActionRunner whose intents are seconds to take, and what came of it."""

    def __init__(self, limit: int) -> None:
        self.tasks, self.wakeup = LoopTasks(), Wakeup()
        self.settled: list[tuple[float, float, int]] = []
        self.runner: ActionRunner[float, float] = ActionRunner(
            self._perform, self._settle, self.tasks, self.wakeup, limit=limit
        )

    async def _perform(self, seconds: float) -> float:
        await asyncio.sleep(abs(seconds))
        if seconds < 0:
            raise ValueError("broken")
        return seconds

    def _settle(self, outcome: float) -> None:
        self.settled.append((at(), outcome, self.runner.taken))


def test_intents_run_concurrently_and_each_is_settled_when_it_ends_and_wakes_the_loop() -> None:
    async def live() -> None:
        actions = Actions(limit=3)
        async with actions.tasks:
            actions.runner.start(5.0)
            actions.runner.start(2.0, slots=2)
            full = [actions.runner.full]
            assert await actions.wakeup.wait(None)
            assert [*full, actions.runner.full] == [True, False]
        assert actions.settled == [(2.0, 2.0, 1), (5.0, 5.0, 0)]

    run_virtual(live())


def test_an_intent_that_raises_ends_its_loop_and_the_other_intents() -> None:
    async def live() -> None:
        actions = Actions(limit=3)
        with pytest.RaisesGroup(ValueError):
            async with actions.tasks:
                actions.runner.start(5.0)
                actions.runner.start(-2.0)
                await asyncio.sleep(60)
        assert (at(), actions.settled, actions.runner.taken) == (2.0, [], 0)

    run_virtual(live())


def test_no_task_starts_before_its_loop() -> None:
    with pytest.raises(RuntimeError, match="before its loop"):
        Actions(limit=1).runner.start(1.0)


def steps(count: int, cost: float) -> Stepper[int]:
    """Count to `count`, or as far as there is time."""
    for done in range(count):
        if not (yield Seconds(cost)):
            return done + 1
    return count


def driven(plan: Callable[[], Coroutine[Any, Any, int]], every: float, until: float) -> tuple[int, float, list[float]]:
    """Result of a plan, when it came, and when another task ran meanwhile."""
    others: list[float] = []

    async def other() -> None:
        while True:
            others.append(at())
            await asyncio.sleep(every)

    async def live() -> tuple[int, float, list[float]]:
        running = asyncio.create_task(other())
        found, ended_at = await plan(), at()
        await ended(running)
        return found, ended_at, [moment for moment in others if moment <= until]

    return run_virtual(live())


def test_a_plan_takes_its_modelled_time_and_others_run_meanwhile() -> None:
    found, ended_at, others = driven(lambda: drive(steps(10, 0.5), loop_clock(), budget=100.0), 1.0, 4.5)
    assert (found, ended_at, others) == (10, 5.0, [0.0, 1.0, 2.0, 3.0, 4.0])


def test_a_plan_ends_with_what_it_has_when_its_budget_is_spent() -> None:
    found, ended_at, _ = driven(lambda: drive(steps(10, 0.5), loop_clock(), budget=2.0), 1.0, 0.0)
    assert (found, ended_at) == (4, 2.0)


@pytest.mark.parametrize(
    ("slice_time", "yields"),
    [pytest.param(0.0, 10, id="after-every-step"), pytest.param(1e9, 0, id="in-one-piece")],
)
def test_other_tasks_run_after_every_slice(slice_time: float, yields: int) -> None:
    async def live() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        running = asyncio.create_task(count())
        await drive(steps(10, 0.0), loop_clock(), budget=1.0, slice_time=slice_time)
        await ended(running)
        return turns

    assert run_virtual(live()) == max(yields - 1, 0)


def test_a_cancelled_plan_is_closed() -> None:
    closed = []

    def plan() -> Stepper[int]:
        try:
            yield from steps(100, 1.0)
        finally:
            closed.append(at())
        return 0

    async def live() -> None:
        running = asyncio.create_task(drive(plan(), loop_clock(), budget=1000.0))
        await asyncio.sleep(2.5)
        await ended(running)

    run_virtual(live())
    assert closed == [2.5]


def test_a_stepper_can_be_run_at_once() -> None:
    assert finish(steps(10, 1.0)) == 10
