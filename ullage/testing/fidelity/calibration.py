"""Latencies of a real control plane, measured just before a story: the simulator plays the story with them.

Measured on the API server and on KWOK, by a client of its own. Our scheduler and controller have no part in it: what
they cost is theirs, and a difference there is a difference.
"""

import asyncio
import statistics
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from ullage.kube.client.api import DELETE_NOW, Binding, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import LEASES, NODES, PODS
from ullage.testing.builders import a_node
from ullage.testing.controlplane.components import KWOK_NODE_ANNOTATION
from ullage.testing.fidelity.manifests import NS, pod

ROUNDS = 12
WARM_UP = 3
"""Rounds that do not count: connections are opened, and code runs for the first time."""
WORK_SECONDS = 0.2
"""Work of each pod."""
PATIENCE_SECONDS = 30.0
_NODE = "calibration"


class MeasuredLatency(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies in seconds."""

    calls: dict[str, float]
    """Median of a call, by method, from the request to the answer."""
    watch: float
    """Median from a change in the API server to its event at a client; a change is halfway in its call."""
    start: float
    """Median from the bind of a pod to its running on a KWOK node."""
    end: float
    """Median from the time at which a pod's work is done to its having ended."""


QUIET = MeasuredLatency(
    calls={"GET": 0.003, "POST": 0.004, "PATCH": 0.005, "DELETE": 0.004}, watch=0.003, start=0.01, end=0.01
)
"""About what a quiet machine of two cores shows."""


@dataclass(slots=True)
class _Samples:
    calls: dict[str, list[float]] = field(default_factory=dict)
    watch: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)

    def medians(self) -> MeasuredLatency:
        calls = {method: _median(times) for method, times in sorted(self.calls.items())}
        return MeasuredLatency(calls=calls, watch=_median(self.watch), start=_median(self.start), end=_median(self.end))


class _SeenPods:
    """Times at which a client first saw each step of a pod's life."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], float] = {}
        self._changed = asyncio.Event()

    def note(self, pod: JsonObject, at: float) -> None:
        steps = ["created", pod["status"].get("phase", "")]
        steps += ["bound"] if pod["spec"].get("nodeName") else []
        for step in steps:
            self._seen.setdefault((pod["metadata"]["name"], step), at)
        self._changed.set()

    async def when(self, name: str, step: str) -> float:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (name, step) not in self._seen:
                self._changed.clear()
                await self._changed.wait()
        return self._seen[name, step]


async def measured_latency(api: KubeApi, rounds: int = ROUNDS) -> MeasuredLatency:
    """Medians of so many rounds. Leaves nothing behind."""
    node = a_node(_NODE)
    node["metadata"]["annotations"] = dict([KWOK_NODE_ANNOTATION])
    await api.create(NODES, node)
    try:
        async with _watched(api) as seen:
            samples = _Samples()
            for number in range(-WARM_UP, rounds):
                if number == 0:
                    samples = _Samples()
                await _round(api, f"calibration-{number + WARM_UP}", seen, samples)
        return samples.medians()
    finally:
        await api.delete(NODES, _NODE, how=DELETE_NOW)


async def _round(api: KubeApi, name: str, seen: _SeenPods, samples: _Samples) -> None:
    """One pod, bound by hand, beside a Lease: the calls of a placement."""
    one = pod(name, 0, runs=WORK_SECONDS, schedulerName="nobody", restartPolicy="Never")
    lease = {"metadata": {"name": name, "namespace": NS}, "spec": {"holderIdentity": name}}

    async def timed(method: str, call: Awaitable[object]) -> float:
        began = _now()
        await call
        ended = _now()
        samples.calls.setdefault(method, []).append(ended - began)
        return (began + ended) / 2

    made = await timed("POST", api.create(PODS, one, NS))
    samples.watch.append(await seen.when(name, "created") - made)
    await timed("POST", api.create(LEASES, lease, NS))
    await timed("PATCH", api.patch(PODS, name, MergePatch({"metadata": {"annotations": {"a": "b"}}}), NS))
    bound = await timed("POST", api.bind(name, NS, Binding(_NODE)))
    samples.watch.append(await seen.when(name, "bound") - bound)
    await timed("GET", api.get(PODS, name, NS))
    await timed("DELETE", api.delete(LEASES, name, NS))
    started = await seen.when(name, "Running")
    samples.start.append(started - await seen.when(name, "bound"))
    samples.end.append(await seen.when(name, "Succeeded") - started - WORK_SECONDS)
    await api.delete(PODS, name, NS, how=DELETE_NOW)


@asynccontextmanager
async def _watched(api: KubeApi) -> AsyncIterator[_SeenPods]:
    seen, pods = _SeenPods(), PODS.whole()
    since = (await api.list(pods, NS)).resource_version

    async def follow() -> None:
        async for events in api.watch(pods, NS, since=since):
            now = _now()
            for event in events:
                if event.object is not None:
                    seen.note(event.object, now)

    following = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def _now() -> float:
    """Time of the loop, which may be a virtual one."""
    return asyncio.get_running_loop().time()


def _median(times: Sequence[float]) -> float:
    """Median, to the tenth of a millisecond. A clock's noise may make short times negative: they are none."""
    return round(max(0.0, statistics.median(times)), 4)
