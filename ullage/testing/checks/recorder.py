"""Record every change of some kinds of objects, from watches of a real or simulated API server. Changes nothing.

Versions of one API server are one order for all kinds, so the changes of several watches can be merged: checks sort
them by version. The invariants are in `placement_history` and `disruption`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from ullage.clock import Clock, WallClock
from ullage.errors import Unreachable, Unreadable
from ullage.kube.client.api import EVERYTHING, KubeApi, ListSelector, WatchEventType
from ullage.kube.client.resource import Resource
from ullage.kube.client.watch_decoder import closed_after

F = TypeVar("F")

_CATCHING_UP_SECONDS = 20.0
_PAUSE_SECONDS = 0.2
"""Between two tries to reach a server that is away."""


@dataclass(frozen=True)  # with slots it could not be called by the name of an alias, `RecordedChange[Pod](...)`
class RecordedChange(Generic[F]):
    """One change: the object from then on, or the last known one if it is gone."""

    version: int
    fact: F
    gone: bool
    at: float = 0.0
    """Time of observation."""


@dataclass(frozen=True)
class WatchedSource(Generic[F]):
    """Resource to watch, and the fact recorded of each object."""

    resource: Resource[Any]
    read: Callable[[Any], F]
    namespace: str = ""
    selection: ListSelector = EVERYTHING


class WatchRecorder(Generic[F]):
    """Records inside its `async with` block. Judge after `whole`."""

    def __init__(self, api: KubeApi, *sources: WatchedSource[F], clock: Clock | None = None) -> None:
        self._api = api
        self._sources = sources
        self._clock = clock or WallClock()
        self._tasks: list[asyncio.Task[None]] = []
        self._last: dict[str, int] = {}
        """Newest version recorded, by uid of an object."""
        self._noted = asyncio.Event()
        self.changes: list[RecordedChange[F]] = []

    async def __aenter__(self) -> Self:
        for source in self._sources:
            page = await self._api.list(source.resource, source.namespace, selection=source.selection)
            for thing in page.items:
                self._note(source, WatchEventType.ADDED, thing, thing.metadata.resource_version)
            self._tasks.append(asyncio.create_task(self._follow(source, page.resource_version)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def whole(self) -> None:
        """Wait until everything there is now has been recorded."""
        self.check()
        async with asyncio.timeout(_CATCHING_UP_SECONDS):
            for source in self._sources:
                page = await self._api.list(source.resource, source.namespace, selection=source.selection)
                waiting = {thing.metadata.uid: int(thing.metadata.resource_version) for thing in page.items}
                while any(self._last.get(uid, 0) < version for uid, version in waiting.items()):
                    await self.noted()

    async def noted(self) -> None:
        """Wait until something more has been recorded."""
        self._noted.clear()
        await self._noted.wait()

    def check(self) -> None:
        """Fails if something may have been missed: then there is nothing to judge."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def _follow(self, source: WatchedSource[F], since: str) -> None:
        """Ends with an error where something may have been missed."""
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
                await asyncio.sleep(_PAUSE_SECONDS)

    def _note(self, source: WatchedSource[F], change: WatchEventType, thing: Any, version: str) -> None:
        self._last[thing.metadata.uid] = int(version)
        self.changes.append(
            RecordedChange(int(version), source.read(thing), change is WatchEventType.DELETED, self._clock.now())
        )
        self._noted.set()
