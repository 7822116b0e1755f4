"""Every moment of pods and GPU Leases, recorded from watches and judged in the order the API server did it.

A look at the end shows only that all is well now. Versions of one API server are one order for all kinds, so what two
watches tell apart can be put together again. Changes nothing.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from ullage.act.sweep import OUR_LEASES, read_gpu_lease
from ullage.errors import Unreachable, Unreadable
from ullage.kube.api import EVERYTHING, Change, KubeApi, Selection
from ullage.kube.read import read_pod
from ullage.kube.resource import Resource
from ullage.kube.resources import LEASES, PODS
from ullage.kube.watching import closed_after
from ullage.model.device import MILLI_GPU
from ullage.model.lease import GpuLease
from ullage.model.pod import Pod

F = TypeVar("F", Pod, GpuLease)

_CATCHING_UP_SECONDS = 20.0
Gpu = tuple[str, int]
"""A node and a device of it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One change: what there is from then on, or what was there last if it is gone."""

    version: int
    fact: Pod | GpuLease
    gone: bool


@dataclass(frozen=True, slots=True)
class _Source(Generic[F]):
    resource: Resource[Any]
    read: Callable[[Any], F]
    namespace: str = ""
    selection: Selection = EVERYTHING


class PlacementHistory:
    """Records inside its `async with` block. Judge after `whole`."""

    def __init__(self, api: KubeApi, lease_namespace: str) -> None:
        self._api = api
        self._sources: tuple[_Source[Any], ...] = (
            _Source(PODS, read_pod),
            _Source(LEASES, read_gpu_lease, lease_namespace, OUR_LEASES),
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._last: dict[str, int] = {}
        """By uid of an object: its newest version recorded."""
        self._noted = asyncio.Event()
        self.moments: list[Moment] = []

    async def __aenter__(self) -> Self:
        for source in self._sources:
            page = await self._api.list(source.resource, source.namespace, selection=source.selection)
            for thing in page.items:
                self._note(source, Change.ADDED, thing, thing.metadata.resource_version)
            self._tasks.append(asyncio.create_task(self._follow(source, page.resource_version)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def whole(self) -> None:
        """Until everything that is there now has been recorded."""
        for task in self._tasks:
            if task.done():
                task.result()
        async with asyncio.timeout(_CATCHING_UP_SECONDS):
            for source in self._sources:
                page = await self._api.list(source.resource, source.namespace, selection=source.selection)
                waiting = {thing.metadata.uid: int(thing.metadata.resource_version) for thing in page.items}
                while any(self._last.get(uid, 0) < version for uid, version in waiting.items()):
                    self._noted.clear()
                    await self._noted.wait()

    async def _follow(self, source: _Source[Any], since: str) -> None:
        """Ends with an error where something may have been missed: then there is nothing to judge."""
        while True:
            try:
                watch = self._api.watch(source.resource, source.namespace, since=since, selection=source.selection)
                async with closed_after(watch) as batches:
                    async for batch in batches:
                        for line in batch:
                            since = line.resource_version or since
                            if line.object is not None:
                                self._note(source, line.change, line.object, line.resource_version)
            except (Unreachable, Unreadable):
                await asyncio.sleep(0.2)

    def _note(self, source: _Source[Any], change: Change, thing: Any, version: str) -> None:
        self._last[thing.metadata.uid] = int(version)
        self.moments.append(Moment(int(version), source.read(thing), change is Change.DELETED))
        self._noted.set()

    def breaches(self) -> Iterator[str]:
        """Every moment at which something that must always hold did not."""
        yield from breaches(self.moments)


def begun_too_early(moments: list[Moment], gang: Collection[str], needed: int) -> Iterator[str]:
    """Binds of a gang's first member before enough of its members (by uid) held GPUs."""
    holding: dict[str, set[str]] = {}
    bound: set[str] = set()
    for moment in sorted(moments, key=lambda one: one.version):
        fact = moment.fact
        if isinstance(fact, GpuLease):
            for names in holding.values():
                names.discard(fact.name)
            for hold in () if moment.gone else fact.holds:
                holding.setdefault(hold.uid, set()).add(fact.name)
        elif fact.uid in gang and (moment.gone or not fact.holds_room):
            bound.discard(fact.uid)
        elif fact.uid in gang and fact.uid not in bound:
            leased = sum(bool(holding.get(uid)) for uid in gang)
            if not bound and leased < needed:
                yield f"at {moment.version} {fact.key} was bound, and {leased} of {needed} members held GPUs"
            bound.add(fact.uid)


@dataclass(slots=True)
class _Scene:
    """What there is at one moment."""

    pods: dict[str, Pod] = field(default_factory=dict)
    """Bound pods that are not over, by uid."""
    on: dict[Gpu, dict[str, int]] = field(default_factory=dict)
    """Who was given each GPU, and how much of it."""
    leases: dict[Gpu, dict[str, int]] = field(default_factory=dict)


def breaches(moments: list[Moment]) -> Iterator[str]:
    """The same, of moments in any order."""
    scene = _Scene()
    for moment in sorted(moments, key=lambda one: one.version):
        if isinstance(moment.fact, Pod):
            yield from _pod_changed(scene, moment, moment.fact)
        else:
            yield from _lease_changed(scene, moment, moment.fact)


def _pod_changed(scene: _Scene, moment: Moment, pod: Pod) -> Iterator[str]:
    before = scene.pods.pop(pod.uid, None)
    for gpu in _gpus(before):
        del scene.on[gpu][pod.uid]
    if moment.gone or not pod.holds_room:
        return
    scene.pods[pod.uid] = pod
    if before is not None and _gpus(before) != _gpus(pod):
        yield f"at {moment.version} {pod.key} was moved from {_gpus(before)} to {_gpus(pod)}"
    for gpu in _gpus(pod):
        holders = scene.on.setdefault(gpu, {})
        holders[pod.uid] = pod.gpu_share
        if gpu in _gpus(before):
            continue
        if sum(holders.values()) > MILLI_GPU:
            names = sorted(str(scene.pods[uid].key) for uid in holders)
            yield f"at {moment.version} GPU {gpu} was given to {' and '.join(names)}"
        if pod.uid not in scene.leases.get(gpu, {}):
            yield f"at {moment.version} {pod.key} was bound to GPU {gpu}, leased to {_names(scene, gpu)}"


def _lease_changed(scene: _Scene, moment: Moment, lease: GpuLease) -> Iterator[str]:
    gpu = (lease.node, lease.device)
    holders = {} if moment.gone else {hold.uid: hold.milli for hold in lease.holds}
    if sum(holders.values()) > MILLI_GPU:
        yield f"at {moment.version} {lease.name} was leased to more than fit: {holders}"
    scene.leases[gpu] = holders
    for uid in scene.on.get(gpu, {}):
        if uid not in holders:
            yield f"at {moment.version} {lease.name} was taken from {scene.pods[uid].key}, which is bound to it"


def _gpus(pod: Pod | None) -> list[Gpu]:
    return [] if pod is None else [(pod.node, device) for device in pod.gpu_ids]


def _names(scene: _Scene, gpu: Gpu) -> str:
    return ", ".join(sorted(scene.leases.get(gpu, {}))) or "nobody"
