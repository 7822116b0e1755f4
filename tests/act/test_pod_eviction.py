"""Evictions that are refused: they are tried again until their time is over, and not a moment longer."""

import asyncio
from itertools import islice
from typing import Any

import pytest

from tests.decide.preemption.fleets import a_pod
from ullage.act.node_removal import retry_waits
from ullage.act.pod_eviction import EvictionAnswer, EvictionPace, PodEvictor
from ullage.errors import TooManyRequests
from ullage.model.outcomes import EvictionResult
from ullage.sim.virtual_time import loop_clock, run_virtual


class SpentBudget:
    """API of a budget that allows nothing."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def evict(self, *_: Any, **__: Any) -> None:
        self.asked.append(asyncio.get_running_loop().time())
        raise TooManyRequests("the budget needs 1 healthy pod")

    async def get(self, *_: Any, **__: Any) -> Any:
        raise TooManyRequests("busy")


@pytest.mark.parametrize(("deadline", "lasts"), [(0.5, 0.0), (4.0, 3.0), (40.0, 35.0)], ids=str)
def test_no_attempt_is_waited_for_that_would_come_too_late(deadline: float, lasts: float) -> None:
    api: Any = SpentBudget()

    async def story() -> tuple[tuple[EvictionAnswer, ...], float]:
        began = asyncio.get_running_loop().time()
        evictor = PodEvictor(api, loop_clock(), EvictionPace(deadline=deadline))
        answers = await evictor.evict([a_pod("p", on="a")], lambda *_: None)
        return answers, asyncio.get_running_loop().time() - began

    (answer,), took = run_virtual(story())
    assert answer.result is EvictionResult.REFUSED
    assert took == pytest.approx(lasts)


def test_failed_attempts_wait_twice_as_long_each_time_up_to_half_a_minute() -> None:
    assert list(islice(retry_waits(), 8)) == [1, 2, 4, 8, 16, 30, 30, 30]
