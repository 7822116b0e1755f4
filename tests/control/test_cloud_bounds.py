"""Calls of a provider end, whatever the provider does; and a loop that does not go on is noticed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from tests.cloud.benches import Requests
from ullage.cloud.api import CreateRequest, CreateResult, NoCapacity, OutcomeUnknown, PoolRef
from ullage.cloud.simulated import SimulatedCloud
from ullage.control.cloud_bounds import CallLimits, bounded
from ullage.model.instance import Instance
from ullage.sim.virtual_time import loop_clock, run_virtual

pytestmark = pytest.mark.story

LIMITS = CallLimits(create=120.0, delete=60.0, list=30.0)
Does = Callable[[], Awaitable[None]]


async def hangs() -> None:
    await asyncio.Event().wait()


async def hangs_and_does_not_hear() -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()


async def raises() -> None:
    raise KeyError("Reservations")


class BadCloud(SimulatedCloud):
    """Does something else before it answers."""

    def __init__(self, does: Does) -> None:
        super().__init__(loop_clock())
        self.does = does
        self.runs = 0

    async def create(self, request: CreateRequest) -> CreateResult:
        await self.does()
        return await super().create(request)

    async def delete(self, ids: Sequence[str]) -> None:
        await self.does()
        await super().delete(ids)

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:
        await self.does()
        return await super().list(pools)

    async def run(self) -> None:
        self.runs += 1
        if self.runs < 3:
            await self.does()


@pytest.mark.parametrize(
    ("does", "seconds", "word"),
    [
        pytest.param(hangs, 1, "no answer within", id="hangs"),
        pytest.param(hangs_and_does_not_hear, 1, "no answer within", id="hangs-and-cannot-be-cancelled"),
        pytest.param(raises, 0, "KeyError: 'Reservations'", id="raises-what-it-must-not"),
    ],
)
def test_every_call_ends_and_its_outcome_is_unknown(does: Does, seconds: int, word: str) -> None:
    async def live() -> None:
        cloud, requests = bounded(BadCloud(does), LIMITS), Requests()
        request = requests.request(requests.pool("one"), 1, "token")
        calls: list[tuple[Callable[[], Awaitable[Any]], float]] = [
            (lambda: cloud.create(request), LIMITS.create),
            (lambda: cloud.delete(["i"]), LIMITS.delete),
            (lambda: cloud.list([]), LIMITS.list),
        ]
        for call, limit in calls:
            began = asyncio.get_running_loop().time()
            with pytest.raises(OutcomeUnknown, match=word):
                await call()
            assert asyncio.get_running_loop().time() - began == limit * seconds

    run_virtual(live())


def test_what_a_provider_may_raise_is_passed_on_and_answers_are_too() -> None:
    async def live() -> None:
        inner = SimulatedCloud(loop_clock())
        cloud, requests = bounded(inner, LIMITS), Requests()
        request = requests.request(requests.pool("one"), 1, "token")
        inner.faults.fail("create", NoCapacity("none"))
        with pytest.raises(NoCapacity):
            await cloud.create(request)
        assert len((await cloud.create(request)).instances) == len(await cloud.list([])) == 1

    run_virtual(live())


def test_background_work_that_fails_is_begun_again() -> None:
    async def live() -> None:
        cloud = BadCloud(raises)
        await bounded(cloud, LIMITS).run()
        assert (cloud.runs, asyncio.get_running_loop().time()) == (3, 15.0)

    run_virtual(live())
