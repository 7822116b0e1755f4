"""Puts a world together, and takes it apart again."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from ullage.clock import Clock
from ullage.cloud.simulated import SimulatedCloud
from ullage.errors import AlreadyExists
from ullage.kube.api import KubeApi
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import install
from ullage.kube.rest import RestApi
from ullage.sim.actors.start import Actors, start_actors
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.process import Process
from ullage.sim.time import loop_clock
from ullage.sim.world.agents import AgentFleet, ImplicitAgents, MakeAgents
from ullage.sim.world.cloud import Joining, adopt_nodes, make_cloud
from ullage.sim.world.hand import Hand
from ullage.sim.world.loops import Loops
from ullage.sim.world.spec import SCHEDULER, Arrival, WorldSpec
from ullage.state.cluster import ClusterState
from ullage.state.placements import Placements

USER = "user"
"""Who creates and deletes what arrives."""
CLOUD = "cloud"
"""Who makes Nodes of machines, and speaks for their agents."""
_HISTORY = 2_000
"""Changes kept per resource: watches do not end here, so few are ever asked for."""


class World:
    """A cluster at work. `started_world` makes it."""

    def __init__(self, spec: WorldSpec, server: SimulatedApiServer, clock: Clock, make_agents: MakeAgents) -> None:
        self.spec = spec
        self.server = server
        self.clock = clock
        self.api: KubeApi = RestApi(InMemoryTransport(server), rng=random.Random(spec.seed), lossless=not spec.faults)
        """For whoever plays the user: no latency, no faults."""
        self.hand = Hand(server, USER)
        """The same without waiting."""
        nature = Hand(server, CLOUD)
        self.agents: AgentFleet = make_agents(nature, clock, spec.faults)
        self.joining = Joining(nature, self.agents, spec.cloud.gpu_seconds)
        self.cloud: SimulatedCloud = make_cloud(spec.cloud, clock, self.joining)
        self.loops = Loops(spec, server, self.cloud)
        self.actors: Actors
        self._began = clock.now()
        self._namespaces = {"default"}

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self.clock.now() - self._began

    @property
    def placements(self) -> Placements:
        """The picture the scheduler decides on."""
        placements: Placements = self.loop(SCHEDULER).desk.placements
        return placements

    @property
    def state(self) -> ClusterState:
        """The cluster as the scheduler has heard of it."""
        return self.placements.state

    def process(self, name: str) -> Process:
        return self.loops.processes[name]

    def loop(self, name: str) -> Any:
        """The live object of a loop, in its present life."""
        return self.loops.running[name]

    def submit(self, arrival: Arrival) -> None:
        """Create its objects now, whatever its time says."""
        for manifest in arrival.objects:
            namespace = manifest["metadata"].get("namespace", "default")
            if namespace not in self._namespaces:
                self.make_namespace(namespace)
            self.hand.create(manifest)

    def make_namespace(self, name: str) -> None:
        """If it is not there yet."""
        self._namespaces.add(name)
        try:
            self.hand.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        except AlreadyExists:
            return

    async def sleep_until(self, seconds: float) -> None:
        """Until so many seconds since the beginning."""
        await asyncio.sleep(max(0.0, seconds - self.elapsed))


@asynccontextmanager
async def started_world(
    spec: WorldSpec,
    *,
    agents: MakeAgents = ImplicitAgents,
    admission: Callable[[SimulatedApiServer], None] = lambda _: None,
) -> AsyncIterator[World]:
    """A world in which every loop has heard everything there was and works, until the block ends."""
    clock = loop_clock()
    server = SimulatedApiServer(clock, seed=spec.seed, history=_HISTORY)
    admission(server)
    world = World(spec, server, clock, agents)
    await install(world.api, (*OURS, POD_GROUP))
    world.make_namespace(spec.scheduler.lease_namespace)
    adopt_nodes(world.cloud, spec.nodes)
    for node in spec.nodes:
        world.joining.join(node)
    world.submit(Arrival(at=0.0, objects=spec.objects))
    nature: KubeApi = RestApi(
        InMemoryTransport(server, user="kubelet"), rng=random.Random(spec.seed + 1), lossless=not spec.faults
    )
    async with start_actors(nature, clock, spec.actors) as world.actors:
        async with _beside(world.cloud.run(), world.agents.run()):
            world.loops.start()
            try:
                await world.loops.wait_ready()
                yield world
            finally:
                world.loops.crash()


@asynccontextmanager
async def _beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """What goes on while the block does. If one breaks, so does the block."""
    block = asyncio.current_task()
    broken: list[BaseException] = []

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            broken.append(error)
            if block is not None:
                block.cancel()

    tasks = [asyncio.create_task(one) for one in work]
    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if not broken:
            raise
        if block is not None:
            block.uncancel()
        raise broken[0] from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
