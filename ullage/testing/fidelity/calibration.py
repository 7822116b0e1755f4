"""Latencies of a real control plane, measured just before a story: the simulator plays the story with them.

Measured on the API server and on KWOK, by a client of its own. Our scheduler and controller have no part in it: what
they cost is theirs, and a difference there is a difference.
"""

import asyncio
import statistics
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from ullage.clock import Clock
from ullage.kube.client.api import DELETE_NOW, Binding, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import LEASES, NODES, PODS
from ullage.testing.builders import a_node
from ullage.testing.controlplane.components import KWOK_NODE_ANNOTATION
from ullage.testing.fidelity.cloud_latency import cloud_latencies
from ullage.testing.fidelity.manifests import NS, pod
from ullage.testing.fidelity.seen_steps import SeenSteps, watched

ROUNDS = 12
WARM_UP = 3
"""Rounds that do not count: connections are opened, and code runs for the first time."""
WORK_SECONDS = 0.2
"""Work of each pod."""
AT_ONCE = 6
"""Calls at the same time, about those of a gang."""
_NODE = "calibration"


class MeasuredLatency(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies in seconds."""

    calls: dict[str, float]
    """Median of a call, by method, from the request to the answer."""
    each: float
    """Median by which each further call at the same time makes all of them take longer."""
    watch: float
    """Median from a change in the API server to its event at a client; a change is halfway in its call."""
    start: float
    """Median from the bind of a pod to its running on a KWOK node."""
    end: float
    """Median from the time at which a pod's work is done to its having ended."""
    buy: float
    """Median of a call to the cloud."""
    boot: float
    """Median from the time at which a machine is due to its node."""
    gpus: float
    """Median by which a node's GPUs are later than they are due, counted from the node."""


QUIET = MeasuredLatency(
    calls={"GET": 0.002, "POST": 0.002, "PATCH": 0.002, "DELETE": 0.002},
    each=0.001,
    watch=0.001,
    start=0.004,
    end=0.005,
    buy=0.005,
    boot=0.01,
    gpus=0.01,
)
"""About what a quiet machine of two cores shows."""


@dataclass(slots=True)
class _Samples:
    calls: dict[str, list[float]] = field(default_factory=dict)
    each: list[float] = field(default_factory=list)
    watch: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)

    cloud: list[tuple[float, float, float]] = field(default_factory=list)

    def medians(self) -> MeasuredLatency:
        calls = {method: _median(times) for method, times in sorted(self.calls.items())}
        buy, boot, gpus = (_median(times) for times in zip(*self.cloud, strict=True))
        return MeasuredLatency(
            calls=calls,
            each=_median(self.each),
            watch=_median(self.watch),
            start=_median(self.start),
            end=_median(self.end),
            buy=buy,
            boot=boot,
            gpus=gpus,
        )


async def measured_latency(api: KubeApi, clock: Clock) -> MeasuredLatency:
    """Medians of some rounds. Leaves nothing behind. `clock` is that of the cloud."""
    node = a_node(_NODE)
    node["metadata"]["annotations"] = dict([KWOK_NODE_ANNOTATION])
    await api.create(NODES, node)
    try:
        samples = await _sampled(api)
    finally:
        await api.delete(NODES, _NODE, how=DELETE_NOW)
    samples.cloud = await cloud_latencies(api, clock)
    return samples.medians()


async def _sampled(api: KubeApi) -> _Samples:
    samples = _Samples()
    async with watched(api, PODS.whole(), _life, NS) as seen:
        for number in range(-WARM_UP, ROUNDS):
            if number == 0:
                samples = _Samples()
            await _round(api, f"calibration-{number + WARM_UP}", seen, samples)
    return samples


async def _round(api: KubeApi, name: str, seen: SeenSteps, samples: _Samples) -> None:
    """One pod, bound by hand, beside a Lease: the calls of a placement."""
    one = pod(name, 0, runs=WORK_SECONDS, schedulerName="nobody", restartPolicy="Never")

    async def timed(method: str, call: Awaitable[object]) -> float:
        began = _now()
        await call
        ended = _now()
        samples.calls.setdefault(method, []).append(ended - began)
        return (began + ended) / 2

    made = await timed("POST", api.create(PODS, one, NS))
    samples.watch.append(await seen.when(name, "created") - made)
    await timed("POST", api.create(LEASES, _lease(name), NS))
    await timed("PATCH", api.patch(PODS, name, MergePatch({"metadata": {"annotations": {"a": "b"}}}), NS))
    bound = await timed("POST", api.bind(name, NS, Binding(_NODE)))
    samples.watch.append(await seen.when(name, "bound") - bound)
    await timed("GET", api.get(PODS, name, NS))
    await timed("DELETE", api.delete(LEASES, name, NS))
    started = await seen.when(name, "Running")
    samples.start.append(started - await seen.when(name, "bound"))
    samples.end.append(await seen.when(name, "Succeeded") - started - WORK_SECONDS)
    await api.delete(PODS, name, NS, how=DELETE_NOW)
    samples.each.append(await _congestion(api, name))


async def _congestion(api: KubeApi, name: str) -> float:
    """Seconds that each further call at the same time takes: some calls at once, beside one alone."""
    names = [f"{name}-{number}" for number in range(AT_ONCE)]
    began = _now()
    await api.create(LEASES, _lease(name), NS)
    alone = _now()
    await asyncio.gather(*(api.create(LEASES, _lease(one), NS) for one in names))
    together = _now()
    for one in (name, *names):
        await api.delete(LEASES, one, NS)
    return (together - alone - (alone - began)) / (AT_ONCE - 1)


def _lease(name: str) -> JsonObject:
    return {"metadata": {"name": name, "namespace": NS}, "spec": {"holderIdentity": name}}


def _life(pod: JsonObject) -> Iterator[str]:
    """Steps in the life of a pod."""
    yield "created"
    yield pod["status"].get("phase", "")
    if pod["spec"].get("nodeName"):
        yield "bound"


def _now() -> float:
    """Time of the loop, which may be a virtual one."""
    return asyncio.get_running_loop().time()


def _median(times: Sequence[float]) -> float:
    """Median, to the tenth of a millisecond. A clock's noise may make short times negative: they are none."""
    return round(max(0.0, statistics.median(times)), 4)
