"""A scheduler alone with a simulated API server that counts what it asks for, and may refuse some of it."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from tests.control.scheduling.fleet import add_nodes, reporting
from ullage.act.concurrency import ended
from ullage.clock import Clock
from ullage.config.settings import Settings
from ullage.control.scheduling.wiring import Scheduler
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import EVENTS, NAMESPACES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request, Response
from ullage.kube.crds.catalog import POD_GROUP, VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.objects.meta import Condition
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.request.authorization import Authoriser, everybody_may
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_namespace

NS = "default"
USER = "scheduler"


@dataclass
class Counting:
    """A transport that counts calls and open streams."""

    inner: InMemoryTransport
    calls: Counter[str] = field(default_factory=Counter)
    """By method and path."""
    streams: int = 0
    most_streams: int = 0

    async def send(self, request: Request) -> Response:
        self.calls[f"{request.method} {request.path}"] += 1
        return await self.inner.send(request)

    async def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        self.streams += 1
        self.most_streams = max(self.most_streams, self.streams)
        try:
            async for lines in self.inner.stream(request):
                yield lines
        finally:
            self.streams -= 1

    async def close(self) -> None:
        await self.inner.close()

    def about(self, *words: str) -> dict[str, int]:
        """Calls whose path has one of these words."""
        return {call: count for call, count in self.calls.items() if any(word in call for word in words)}


@dataclass
class Cluster:
    """One scheduler at work on a few GPU nodes whose agents report."""

    api: KubeApi
    clock: Clock
    scheduler: Scheduler
    asked: Counting
    """What the scheduler asked for."""

    async def condition(self, pod: str) -> Condition:
        """What the pod says of why it waits."""
        conditions = (await self.api.get(PODS, pod, NS)).status.conditions
        return next(one for one in conditions if one.type == "PodScheduled")

    async def events(self, pod: str) -> list[JsonObject]:
        return [one for one in (await self.api.list(EVENTS, NS)).items if one["regarding"]["name"] == pod]


def play(
    story: Callable[[Cluster], Awaitable[None]],
    *,
    nodes: int = 2,
    may: Authoriser = everybody_may,
    prepare: Callable[[KubeApi], Awaitable[None]] | None = None,
) -> None:
    """Tell a story. `may` says what anybody may do; the scheduler is `USER`. `prepare` comes before it starts."""

    async def live() -> None:
        clock = loop_clock()
        server = SimulatedApiServer(clock, seed=1, authorise=may)
        api = RestApi(InMemoryTransport(server), rng=random.Random(1))
        await install(api)
        await install(api, (POD_GROUP, *VM_KINDS))  # a kind that is missing is looked for each minute
        await api.create(NAMESPACES, a_namespace("ullage-system"))
        names = [f"node-{number:02d}" for number in range(nodes)]
        await add_nodes(api, names, clock)
        if prepare is not None:
            await prepare(api)
        asked = Counting(InMemoryTransport(server, user=USER))
        own = RestApi(asked, rng=random.Random(2))
        scheduler = Scheduler(own, Settings(), clock, instance="one", seed=1)
        running = asyncio.ensure_future(scheduler.run())
        try:
            async with reporting(api, names, clock):
                await story(Cluster(api, clock, scheduler, asked))
            assert not running.done(), running
        finally:
            await ended(running)

    run_virtual(live())
