"""Simulated clusters that serve HTTP from a thread of their own, for clients that block."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from ullage.clock import WallClock
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.install import install
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.controllers.wiring import ControllerManager, ControllerManagerSettings
from ullage.sim.http import ServedCluster, ServeOptions, serving

PATIENCE_SECONDS = 20.0


@asynccontextmanager
async def served_cluster(how: ServeOptions, *, actors: bool = False) -> AsyncIterator[ServedCluster]:
    """Our kinds are installed; with actors, pods on nodes run and workloads keep their counts."""
    clock = WallClock()
    server = SimulatedApiServer(clock, seed=1)
    api = RestApi(InMemoryTransport(server), rng=random.Random(1))
    await install(api)
    async with serving(server, how) as served, asyncio.TaskGroup() as running:
        acting = (
            running.create_task(ControllerManager(api, clock, ControllerManagerSettings(seed=1)).run())
            if actors
            else None
        )
        yield served
        if acting is not None:
            acting.cancel()


@contextmanager
def in_a_thread(how: ServeOptions, *, actors: bool = False) -> Iterator[ServedCluster]:
    """The cluster on an event loop of its own, during the block."""
    ready, ended = threading.Event(), threading.Event()
    found: list[ServedCluster] = []
    stop: list[Callable[[], object]] = []

    async def live() -> None:
        leave = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(leave.set))
        async with served_cluster(how, actors=actors) as served:
            found.append(served)
            ready.set()
            await leave.wait()

    def run() -> None:
        try:
            asyncio.run(live())
        finally:
            ready.set()
            ended.set()

    thread = threading.Thread(target=run, name="simulated cluster")
    thread.start()
    try:
        assert ready.wait(PATIENCE_SECONDS), "the simulated cluster did not start"
        yield found[0]
    finally:
        for call in stop:
            call()
        assert ended.wait(PATIENCE_SECONDS), "the simulated cluster did not end"
        thread.join()
