"""Traces of placements, received by a collector over OTLP; and that nothing waits for a collector that is away."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from tests.act.gangs import a_gang
from tests.act.test_bind import a_place
from tests.contract.worlds import World, memory_world
from tests.observe.collector import collecting
from ullage.act.bind import PodBinder
from ullage.act.gang_bind import GangBinder
from ullage.act.leases import LeaseClient
from ullage.clock import WallClock
from ullage.errors import UserError
from ullage.model.outcomes import PodBound, PodNotBound
from ullage.observe.otel import FLUSH_SECONDS, OtelTracer, traces_url
from ullage.observe.traces import PlacementStep, placement, step


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with memory_world() as entered:
        yield entered


@contextmanager
def tracing(url: str, fraction: float = 1.0) -> Iterator[OtelTracer]:
    tracer = OtelTracer(traces_url(url, "here"), service="ullage-scheduler", instance="one", fraction=fraction)
    try:
        yield tracer
    finally:
        tracer.close()


async def test_a_placement_is_decided_leased_and_bound(world: World) -> None:
    api, ns = world.api, world.namespace
    with collecting() as collector:
        with tracing(collector.url) as tracer, placement(tracer, {"k8s.pod.name": "p"}, decide_seconds=0.25):
            action = await a_place(api, ns, 0, 1)
            outcome = await PodBinder(api, LeaseClient(api, ns, WallClock())).perform(action)
            assert isinstance(outcome, PodBound)
        (trace,) = collector.traces()
    root, decide, lease, bind = (trace[name][0] for name in ("placement", "decide", "lease", "bind"))
    assert collector.paths == {"/v1/traces"}
    assert root.attributes == {"k8s.pod.name": "p"}
    assert not root.parent
    assert {decide.parent, lease.parent, bind.parent} == {root.id}
    assert (
        root.began == decide.began < decide.ended <= lease.began < lease.ended <= bind.began < bind.ended <= root.ended
    )
    assert round((decide.ended - decide.began) / 1e9, 3) == 0.25
    assert (lease.attributes, bind.attributes) == ({"gpus": 2}, {"pod": f"{ns}/p"})
    assert (root.resource["service.name"], root.resource["service.instance.id"]) == ("ullage-scheduler", "one")


async def test_a_gang_is_one_trace_with_a_bind_for_each_member(world: World) -> None:
    api, ns = world.api, world.namespace
    gang = await a_gang(api, ns, {"p0": ("node-b", (0, 1)), "p1": ("node-a", (3, 2))})
    with collecting() as collector:
        with tracing(collector.url) as tracer, placement(tracer, {"ullage.gang": "g"}, decide_seconds=0.0):
            await GangBinder(api, LeaseClient(api, ns, WallClock())).perform(gang)
        (trace,) = collector.traces()
    (lease,) = trace["lease"]
    assert {one.attributes["pod"] for one in trace["bind"]} == {f"{ns}/p0", f"{ns}/p1"}
    assert all(lease.ended <= one.began for one in trace["bind"]), "all GPUs before the first bind"


async def test_a_failed_placement_says_why(world: World) -> None:
    api, ns = world.api, world.namespace
    first, second = await a_place(api, ns, 0), await a_place(api, ns, 0, name="q")
    binder = PodBinder(api, LeaseClient(api, ns, WallClock()))
    await binder.perform(first)
    with collecting() as collector:
        with tracing(collector.url) as tracer, placement(tracer, {}, decide_seconds=0.0) as span:
            outcome = await binder.perform(second)
            assert isinstance(outcome, PodNotBound)
            span.failed(outcome.setback.value, outcome.detail)
        (trace,) = collector.traces()
    assert trace["placement"][0].attributes["ullage.reason"] == "GpuTaken"
    assert "GPU 0 is held by" in trace["placement"][0].error
    assert "bind" not in trace


@pytest.mark.parametrize("status", [503, 0], ids=["refusing", "away"])
def test_nothing_waits_for_a_collector_in_trouble(status: int) -> None:
    with collecting(status or 200) as collector:
        url = collector.url if status else "http://127.0.0.1:1"
        tracer = OtelTracer(traces_url(url, "here"), service="s", instance="i")
        began, used = time.monotonic(), time.thread_time()
        for _ in range(5000):
            with placement(tracer, {}, decide_seconds=0.0), step(PlacementStep.BIND):
                pass
        assert time.thread_time() - used < 5
        # Repeated sends to such a collector take minutes; a busy machine takes seconds.
        assert time.monotonic() - began < 60
        began = time.monotonic()
        tracer.close()
        assert time.monotonic() - began < FLUSH_SECONDS + 2


def test_a_part_of_all_placements_is_traced() -> None:
    with collecting() as collector:
        with tracing(collector.url, fraction=0.2) as tracer:
            for _ in range(200):
                with placement(tracer, {}, decide_seconds=0.0):
                    pass
        assert 10 < len(collector.traces()) < 80


def test_without_a_tracer_steps_are_nothing() -> None:
    with placement(None, {}, decide_seconds=1.0) as span, step(PlacementStep.LEASE, gpus=1):
        span.failed("Reason", "detail")


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("https://collector/", "https://collector/v1/traces"),
        ("http://collector/other/path", "http://collector/other/path"),
    ],
)
def test_an_endpoint_without_a_path_gets_that_of_otlp(endpoint: str, url: str) -> None:
    assert traces_url(endpoint, "here") == url


@pytest.mark.parametrize("endpoint", ["collector:4318", "grpc://collector:4317", "http://", ""])
def test_an_endpoint_that_is_no_url_is_refused(endpoint: str) -> None:
    with pytest.raises(UserError, match=r"scheduling.traceEndpoint: .* is not a URL"):
        traces_url(endpoint, "scheduling.traceEndpoint")
