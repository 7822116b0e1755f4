"""The dashboard of a large cluster: how long it holds the loop that watches, what it sends, and what it costs.

5,000 nodes of 8 GPUs, all held, and 1,000 waiting pods of ten workloads, served to one reader of the stream. First
everything is shown and an action is tried for every workload, then pods come and go, then nothing happens. CPU time,
not time by the clock: a shared machine is never faster than it is.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import aiohttp
from msgspec.structs import replace

from bench.buying import a_pool
from bench.record import Figure
from bench.scale_cluster import GPUS, NOW, a_node, a_pod, an_inventory, node_name
from ullage.clock import Instant
from ullage.model.fact_event import Added, Deleted, ObjectKey
from ullage.model.pod import Owner, Pod
from ullage.model.units import Steady
from ullage.observe.probes import ListenAddress
from ullage.runtime import keep_garbage_collection_short
from ullage.web.live import LiveView, served
from ullage.web.view.pools import PoolView
from ullage.web.view.rows import WaitingGroupRow

NODES, WAITING, WORKLOADS = 5_000, 1_000, 10
CHANGES_A_SECOND = 100
BUSY_SECONDS, QUIET_SECONDS = 20.0, 10.0
MOST_HELD_MS = 100.0
MOST_SNAPSHOT_MB, MOST_PATCH_KB = 4.0, 200.0
MOST_BUSY, MOST_QUIET = 50.0, 5.0
"""Percent of a core, with 100 pods a second coming and going, and with nothing happening."""
PATIENCE = 300.0

T = TypeVar("T")


class _Clock:
    """The time of the cluster's facts, going on."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def now(self) -> Instant:
        return Instant(NOW + time.monotonic() - self._began)

    def steady(self) -> Steady:
        return Steady(time.monotonic() - self._began)

    async def charge(self, cpu_seconds: float) -> None:  # noqa: ARG002 - spent already
        return None


class _Served:
    """A view whose steps in its loop are timed, and a reader of its stream."""

    def __init__(self, nodes: int, waiting: int) -> None:
        self.view = LiveView(_Clock(), title="bench")
        self.nodes, self.waiting = nodes, waiting
        self.held: dict[str, list[float]] = {}
        self.frames: list[int] = []
        self.connected = asyncio.Event()
        self.view.patch = self._timed("patch", self.view.patch)  # type: ignore[method-assign]
        self.view.explain = self._timed("question", self.view.explain)  # type: ignore[method-assign]
        self.view.answer = self._timed("question", self.view.answer)  # type: ignore[method-assign]

    def _timed(self, kind: str, work: Callable[..., T]) -> Callable[..., T]:
        def timed(*arguments: Any) -> T:
            began = time.thread_time()
            try:
                return work(*arguments)
            finally:
                self.held.setdefault(kind, []).append((time.thread_time() - began) * 1000)

        return timed

    async def fill(self) -> None:
        """Tell of everything, with pauses as informers make them."""
        pool = a_pool()
        self.view.observe(Added(ObjectKey("", pool.name), PoolView(pool, self.nodes, self.nodes, 0, 100, None)))
        for number in range(self.nodes):
            name = node_name(number)
            self.view.observe(Added(ObjectKey("", name), a_node(name)))
            self.view.observe(Added(ObjectKey("", name), an_inventory(name)))
            pod = _busy(number, 0)
            self.view.observe(Added(pod.key, pod))
            if number % 100 == 0:
                await asyncio.sleep(0)
        for number in range(self.waiting):
            workload = number % WORKLOADS
            owner = Owner("ReplicaSet", f"wait{workload}-5d4f8", f"uid-{workload}")
            pod = a_pod(f"wait{workload}-5d4f8-{number:05}", "", number=workload, gpus=1 + workload)
            self.view.observe(Added(pod.key, replace(pod, owner=owner)))
        self.view.all_observed()

    async def read(self, url: str) -> None:
        """Read the stream, and count its bytes by frame."""
        async with aiohttp.ClientSession(read_bufsize=2**24) as session, session.get(f"{url}api/stream") as answer:
            size, is_patch = 0, False
            async for line in answer.content:
                size += len(line)
                is_patch = is_patch or line == b"event: patch\n"
                if line == b"\n":
                    self.frames += [size] if is_patch else []
                    self.connected.set()
                    size, is_patch = 0, False

    async def all_advised(self) -> float:
        """Seconds until every node is shown and every group of waiting pods has an action."""
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            await asyncio.sleep(0.1)
            rows = [row for row in self.view.model._groups.table.rows.values() if isinstance(row, WaitingGroupRow)]
            if rows and not self.view.model.behind and all(row.action for row in rows):
                return time.monotonic() - began
        raise RuntimeError("no action was found for some workload")

    async def change(self, seconds: float) -> None:
        """Let pods of one node after another be replaced, a hundred a second."""
        until, number = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            for _ in range(CHANGES_A_SECOND // 10):
                turn, place = divmod(number, self.nodes)
                old, new = _busy(place, turn), _busy(place, turn + 1)
                self.view.observe(Deleted(old.key, old))
                self.view.observe(Added(new.key, new))
                number += 1
            await asyncio.sleep(0.1)


def _busy(place: int, turn: int) -> Pod:
    """The pod that holds a node's GPUs."""
    return a_pod(f"busy-{place}-{turn}", node_name(place), number=place, gpus=GPUS, ids=tuple(range(GPUS)))


def run(scale: float) -> list[Figure]:
    """Measure one dashboard."""
    return asyncio.run(_measure(max(int(NODES * scale), 10), max(int(WAITING * scale), WORKLOADS), scale))


async def _measure(nodes: int, waiting: int, scale: float) -> list[Figure]:
    one = _Served(nodes, waiting)
    async with served(one.view, ListenAddress("127.0.0.1", 0)) as url:
        await one.fill()
        keep_garbage_collection_short()
        advised = await one.all_advised()
        async with _reading(one, url):
            snapshot = await _bytes(url, "api/snapshot")
            spent = time.process_time()
            await asyncio.gather(one.change(BUSY_SECONDS * scale), _questions(url))
            busy = (time.process_time() - spent) / (BUSY_SECONDS * scale)
            patches = list(one.frames)
            await one.all_advised()
            spent = time.process_time()
            await asyncio.sleep(QUIET_SECONDS * scale)
            quiet = (time.process_time() - spent) / (QUIET_SECONDS * scale)
    return [
        *(_hold(kind, steps) for kind, steps in one.held.items()),
        Figure("all nodes shown, an action for each workload", "s", advised),
        _most("snapshot", "MB", snapshot / 1e6, MOST_SNAPSHOT_MB),
        _most("largest patch, 100 pods a second", "KB", max(patches) / 1000, MOST_PATCH_KB),
        Figure("sent to a reader, 100 pods a second", "KB/s", sum(patches) / 1000 / (BUSY_SECONDS * scale)),
        _most("CPU, 100 pods a second and four questions", "% of a core", busy * 100, MOST_BUSY),
        _most("CPU, nothing happens", "% of a core", quiet * 100, MOST_QUIET),
    ]


@asynccontextmanager
async def _reading(one: _Served, url: str) -> AsyncIterator[None]:
    reader = asyncio.create_task(one.read(url))
    try:
        await one.connected.wait()
        yield
    finally:
        reader.cancel()
        with suppress(asyncio.CancelledError):
            await reader


async def _questions(url: str) -> None:
    """Ask why two pods wait, what a pool does, and of what is not there."""
    for path in ("explain/team-0/wait0-5d4f8-00000", "explain/team-9/wait9-5d4f8-00009", "answer/pool/pool"):
        await _bytes(url, f"api/{path}")
    with suppress(aiohttp.ClientResponseError):
        await _bytes(url, "api/explain/team-0/nobody")


async def _bytes(url: str, path: str) -> int:
    async with aiohttp.ClientSession(raise_for_status=True) as session, session.get(f"{url}{path}") as answer:
        return len(await answer.read())


def _hold(kind: str, steps: list[float]) -> Figure:
    return _most(f"loop held by a {kind}, longest", "ms", max(steps), MOST_HELD_MS)


def _most(name: str, unit: str, value: float, most: float) -> Figure:
    return Figure(name, unit, value, most, "at most", 1.0)
