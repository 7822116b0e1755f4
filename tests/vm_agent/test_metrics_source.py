"""Metrics of VMs: Prometheus text, and endpoints that hang, lie or are not there."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import pytest
from aiohttp import web

from ullage.decide.vm_agent.goal import NO_METRICS, VmMetrics
from ullage.model.fact_event import ObjectKey
from ullage.vm_agent.metrics_source import (
    HttpMetricsSource,
    MetricsEndpoint,
    MetricsReading,
    MetricsTarget,
    MetricsTrouble,
    parse_metrics,
)

PAGE = """\
# HELP node_load1 1m load average.
# TYPE node_load1 gauge
node_load1 2.5
# HELP node_load15 15m load average.
node_load15 0.25
node_load5 1.5e0
node_cpu_seconds_total{cpu="0",mode="idle"} 94631.29
node_memory_MemAvailable_bytes 3.221225472e+09
node_memory_MemTotal_bytes 4.294967296e+09
"""
GOOD = VmMetrics(load1=2.5, load5=1.5, memory_usage=(1 << 30) + (100 << 20))


def test_a_page_of_node_exporter() -> None:
    assert parse_metrics(PAGE) == MetricsReading(GOOD)


def test_another_prefix() -> None:
    assert parse_metrics(PAGE.replace("node_", "host_"), "host_").metrics == GOOD
    assert parse_metrics(PAGE, "host_").metrics == NO_METRICS


@pytest.mark.parametrize(
    ("change", "metrics", "trouble"),
    [
        pytest.param(("node_load1 2.5\n", ""), VmMetrics(load5=1.5, memory_usage=GOOD.memory_usage), "incomplete",
                     id="a-load-is-missing"),
        pytest.param(("2.5", "NaN"), VmMetrics(load5=1.5, memory_usage=GOOD.memory_usage), "incomplete", id="nan"),
        pytest.param(("2.5", "+Inf"), VmMetrics(load5=1.5, memory_usage=GOOD.memory_usage), "incomplete", id="inf"),
        pytest.param(("2.5", "-1"), VmMetrics(load5=1.5, memory_usage=GOOD.memory_usage), "incomplete", id="negative"),
        pytest.param(("3.221225472e+09", "9e+18"), VmMetrics(load1=2.5, load5=1.5), "incomplete",
                     id="more-available-than-there-is"),
        pytest.param(("2.5", "two"), NO_METRICS, "malformed", id="no-number"),
        pytest.param((PAGE, "<html>node_load1"), NO_METRICS, "incomplete", id="another-page"),
        pytest.param((PAGE, ""), NO_METRICS, "incomplete", id="nothing"),
    ],
)  # fmt: skip
def test_pages_that_are_not_whole(change: tuple[str, str], metrics: VmMetrics, trouble: str) -> None:
    reading = parse_metrics(PAGE.replace(*change))
    assert (reading.metrics, reading.trouble) == (metrics, MetricsTrouble(trouble))
    assert reading.detail


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def endpoint(answer: Answer) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/metrics", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def first_reading(port: int, patience: float = 30.0) -> MetricsReading:
    source = HttpMetricsSource(MetricsEndpoint(port=port, every=0.05, timeout=patience), random.Random(1))
    try:
        async with aclosing(source.readings(MetricsTarget(ObjectKey("ns", "v"), "127.0.0.1"))) as readings:  # type: ignore[type-var]
            async for reading in readings:
                return reading
    finally:
        await source.close()
    raise AssertionError("no reading")


async def good(_: web.Request) -> web.Response:
    return web.Response(text=PAGE)


async def hangs(_: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


async def hangs_in_the_middle(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(PAGE.encode()[:40])
    await asyncio.sleep(30)
    return response


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x" * 1_000_000)


async def elsewhere(_: web.Request) -> web.Response:
    raise web.HTTPFound("http://127.0.0.1:1/")


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        pytest.param(good, None, id="good"),
        pytest.param(hangs, MetricsTrouble.TIMEOUT, id="hangs"),
        pytest.param(hangs_in_the_middle, MetricsTrouble.TIMEOUT, id="hangs-in-the-middle"),
        pytest.param(endless, MetricsTrouble.TOO_LARGE, id="endless"),
        pytest.param(elsewhere, MetricsTrouble.STATUS, id="a-redirect-is-not-followed"),
    ],
)
async def test_endpoints(answer: Answer, trouble: MetricsTrouble | None) -> None:
    async with endpoint(answer) as port:
        reading = await first_reading(port, 0.2 if trouble is MetricsTrouble.TIMEOUT else 30.0)
    assert reading.trouble == trouble, reading.detail
    assert reading.metrics == (GOOD if trouble is None else NO_METRICS)


async def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        reading = await first_reading(taken.getsockname()[1])
    assert reading.trouble is MetricsTrouble.UNREACHABLE
