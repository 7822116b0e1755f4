"""Times at which a client saw the steps in the life of objects: a pod that runs, a node that came."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject, Resource

PATIENCE_SECONDS = 30.0

StepsOf = Callable[[JsonObject], Iterable[str]]
"""Steps that an object has taken."""


class SeenSteps:
    """First time of each step, by the loop's clock."""

    def __init__(self, steps_of: StepsOf) -> None:
        self._steps_of = steps_of
        self._seen: dict[tuple[str, str], float] = {}
        self._changed = asyncio.Event()

    def note(self, manifest: JsonObject, at: float) -> None:
        for step in self._steps_of(manifest):
            self._seen.setdefault((manifest["metadata"]["name"], step), at)
        self._changed.set()

    async def when(self, name: str, step: str) -> float:
        """Wait for a step. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (name, step) not in self._seen:
                self._changed.clear()
                await self._changed.wait()
        return self._seen[name, step]


@asynccontextmanager
async def watched(
    api: KubeApi, resource: Resource[JsonObject], steps_of: StepsOf, namespace: str = ""
) -> AsyncIterator[SeenSteps]:
    """Steps of all objects of a kind, until the block ends."""
    seen = SeenSteps(steps_of)
    since = (await api.list(resource, namespace)).resource_version

    async def follow() -> None:
        async for events in api.watch(resource, namespace, since=since):
            now = asyncio.get_running_loop().time()
            for event in events:
                if event.object is not None:
                    seen.note(event.object, now)

    following = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
