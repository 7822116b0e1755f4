"""A stage for stories of actors: a simulated API server in virtual time, with delays between it and the actors."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ullage.kube.client.api import Binding, KubeApi, ListSelector
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import PODS
from ullage.kube.client.rest import RestApi
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import Latency, NetworkConditions
from ullage.sim.controllers.wiring import ControllerManager, ControllerManagerSettings, start_actors
from ullage.sim.virtual_time import EPOCH, loop_clock, run_virtual
from ullage.testing.builders import a_pod

POD = PODS.whole()


@dataclass(frozen=True, slots=True)
class Stage:
    """A simulated API server, an API for the story, and one for actors that may be disturbed."""

    server: SimulatedApiServer
    api: KubeApi
    network: NetworkConditions

    @asynccontextmanager
    async def actors(
        self,
        settings: ControllerManagerSettings = ControllerManagerSettings(),  # noqa: B008 - frozen
    ) -> AsyncIterator[ControllerManager]:
        api = RestApi(
            InMemoryTransport(self.server, user="actors", network=self.network),
            rng=random.Random(3),
        )
        async with start_actors(api, loop_clock(), settings) as actors:
            yield actors

    async def pods(self, **fields: str) -> list[JsonObject]:
        chosen = ",".join(f"{key.replace('_', '.')}={value}" for key, value in fields.items())
        return list((await self.api.list(POD, selection=ListSelector(fields=chosen))).items)

    async def phases(self) -> list[str]:
        return sorted(pod["status"]["phase"] for pod in await self.pods())


def on_stage(story: Callable[[Stage], Awaitable[None]], *, watch_lag: float = 0.02) -> None:
    async def told() -> None:
        server = SimulatedApiServer(loop_clock(), seed=5)
        latency = Latency(default=0.004, spread=0.5, watch=watch_lag)
        api = RestApi(InMemoryTransport(server, user="story"), rng=random.Random(5))
        await story(Stage(server, api, NetworkConditions(seed=5, latency=latency)))

    run_virtual(told())


def elapsed() -> float:
    return loop_clock().now() - EPOCH


async def bound_pod(stage: Stage, name: str, node: str, body: JsonObject | None = None) -> None:
    await stage.api.create(PODS, body or a_pod(name), "default")
    await stage.api.bind(name, "default", Binding(node))


async def until(check: Callable[[], Awaitable[bool]], seconds: float = 600) -> float:
    """When it first was so."""
    end = elapsed() + seconds
    while not await check():
        assert elapsed() < end, "never so"
        await asyncio.sleep(0.5)
    return elapsed()
