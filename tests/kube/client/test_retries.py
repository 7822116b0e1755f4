"""What is asked again, how often, and after how long; in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from tests.kube.scripted import Answer, ScriptedTransport, a_pod, api_over, says, status
from ullage.errors import ApiError, ServerFailure, TooManyRequests, Unreachable
from ullage.kube.client.api import Binding, KubeApi, MergePatch
from ullage.kube.client.calling import RetryPolicy
from ullage.kube.client.rate import RateLimiter
from ullage.kube.client.resources import NODES, PODS
from ullage.kube.client.transport import Response
from ullage.sim.virtual_time import run_virtual

Write = Callable[[KubeApi], Coroutine[Any, Any, None]]

BUSY = status(429, "TooManyRequests", "too busy")
BROKEN = status(500, "InternalError", "etcd: leader changed")
OK = says(a_pod("p"))


def busy(retry_after: float) -> Response:
    return Response(429, BUSY.body, retry_after)


async def read(api: KubeApi) -> None:
    await api.get(PODS, "p", "n")


async def create(api: KubeApi) -> None:
    await api.create(PODS, a_pod("p"), "n")


async def patch(api: KubeApi) -> None:
    await api.patch(NODES, "x", MergePatch({}))


async def delete(api: KubeApi) -> None:
    await api.delete(PODS, "p", "n")


async def bind(api: KubeApi) -> None:
    await api.bind("p", "n", Binding("node"))


async def evict(api: KubeApi) -> None:
    await api.evict("p", "n")


WRITES = [create, patch, delete, bind, evict]
NO_ANSWER = Unreachable("cut")


@pytest.mark.parametrize("trouble", [NO_ANSWER, BROKEN, BUSY], ids=["unreachable", "broken", "busy"])
def test_reads_are_asked_again(trouble: Answer) -> None:
    transport = ScriptedTransport([trouble, trouble, OK])
    run_virtual(read(api_over(transport)))
    assert len(transport.requests) == 3


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    ("trouble", "error"),
    [pytest.param(NO_ANSWER, Unreachable, id="cut"), pytest.param(BROKEN, ServerFailure, id="5xx")],
)
def test_a_write_that_may_have_happened_is_never_sent_twice(
    write: Write, trouble: Answer, error: type[ApiError]
) -> None:
    transport = ScriptedTransport([trouble, OK])
    with pytest.raises(error):
        run_virtual(write(api_over(transport)))
    assert len(transport.requests) == 1


@pytest.mark.parametrize("write", [create, patch, delete, bind])
def test_a_write_the_server_was_too_busy_for_is_sent_again(write: Write) -> None:
    transport = ScriptedTransport([BUSY, OK])
    run_virtual(write(api_over(transport)))
    assert len(transport.requests) == 2


def test_an_eviction_that_a_budget_refuses_comes_back_at_once() -> None:
    transport = ScriptedTransport([busy(10), OK])
    with pytest.raises(TooManyRequests) as caught:
        run_virtual(evict(api_over(transport)))
    assert caught.value.retry_after == 10
    assert len(transport.requests) == 1


def test_the_server_is_left_alone_as_long_as_it_asks() -> None:
    transport = ScriptedTransport([busy(5), OK])
    run_virtual(read(api_over(transport)))
    first, second = transport.moments
    assert 5 <= second - first <= 5.6


def test_a_server_that_asks_for_more_than_our_patience_gets_no_second_call() -> None:
    transport = ScriptedTransport([busy(31), OK])
    with pytest.raises(TooManyRequests):
        run_virtual(read(api_over(transport, patience=RetryPolicy(longest_wait=30))))
    assert len(transport.requests) == 1


def test_attempts_are_bounded_and_waits_double_with_jitter() -> None:
    transport = ScriptedTransport([NO_ANSWER] * 10)
    with pytest.raises(Unreachable):
        run_virtual(read(api_over(transport, patience=RetryPolicy(attempts=4, first_wait=1))))
    moments = transport.moments
    waits = [later - sooner for sooner, later in pairwise(moments)]
    assert len(waits) == 3
    for wait, middle in zip(waits, (1, 2, 4), strict=True):
        assert 0.5 * middle <= wait <= 1.5 * middle
    assert waits != [1, 2, 4]


def test_the_same_seed_waits_the_same() -> None:
    def moments() -> list[float]:
        transport = ScriptedTransport([NO_ANSWER, NO_ANSWER, OK])
        run_virtual(read(api_over(transport)))
        return transport.moments

    assert moments() == moments()


def test_every_attempt_keeps_to_the_rate() -> None:
    transport = ScriptedTransport([BUSY, OK, OK])
    patience = RetryPolicy(first_wait=0.001)

    async def story() -> None:
        api = api_over(transport, rate=RateLimiter(1, 1), patience=patience)
        await asyncio.gather(read(api), read(api))

    run_virtual(story())
    assert [round(moment - transport.moments[0], 6) for moment in transport.moments] == [0, 1, 2]
