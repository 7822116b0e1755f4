"""The client's own limit, in virtual time."""

import asyncio

import pytest

from ullage.kube.client.rate import RateLimiter
from ullage.sim.virtual_time import run_virtual


async def take(rate: RateLimiter, who: int, log: list[tuple[int, float]]) -> None:
    await rate.turn()
    log.append((who, asyncio.get_running_loop().time()))


def test_a_burst_goes_at_once_and_the_rest_in_line() -> None:
    log: list[tuple[int, float]] = []

    async def story() -> None:
        rate = RateLimiter(per_second=2, burst=3)
        await asyncio.gather(*(take(rate, who, log) for who in range(6)))

    run_virtual(story())
    assert log == [(0, 0), (1, 0), (2, 0), (3, 0.5), (4, 1.0), (5, 1.5)]


def test_silence_saves_up_one_burst_and_no_more() -> None:
    log: list[tuple[int, float]] = []

    async def story() -> None:
        rate = RateLimiter(per_second=1, burst=2)
        await rate.turn()
        await asyncio.sleep(1000)
        await asyncio.gather(*(take(rate, who, log) for who in range(3)))

    run_virtual(story())
    assert log == [(0, 1000), (1, 1000), (2, 1001)]


def test_waiters_that_give_up_cost_nobody_anything() -> None:
    log: list[tuple[int, float]] = []

    async def story() -> None:
        rate = RateLimiter(per_second=1, burst=1)
        await rate.turn()
        quitters = [asyncio.create_task(rate.turn()) for _ in range(100)]
        last = asyncio.create_task(take(rate, 1, log))
        await asyncio.sleep(0.5)
        for quitter in quitters:
            quitter.cancel()
        await last

    run_virtual(story())
    assert log == [(1, 1.0)]


@pytest.mark.parametrize(("per_second", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_rate_that_never_lets_anyone_through_is_refused(per_second: float, burst: int) -> None:
    with pytest.raises(ValueError, match="a rate needs"):
        RateLimiter(per_second, burst)
