"""Puts a world together, and takes it apart again."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from ullage.clock import Clock
from ullage.cloud.simulated import SimulatedCloud
from ullage.errors import AlreadyExists
from ullage.kube.api import KubeApi
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import install
from ullage.kube.resources import GPU_CLAIMS, GPU_NODE_STATUSES
from ullage.kube.rest import RestApi
from ullage.sim.actors.start import Actors, start_actors
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.process import Process
from ullage.sim.time import loop_clock
from ullage.sim.world import setup
from ullage.sim.world.agents import AgentFleet, ImplicitAgents, MakeAgents
from ullage.sim.world.books import Step
from ullage.sim.world.cloud import Joining, make_cloud
from ullage.sim.world.decisions import Decisions
from ullage.sim.world.facts import NodeNow
from ullage.sim.world.hand import Hand
from ullage.sim.world.loops import PROCESS_OF, Loops
from ullage.sim.world.observers import Forgetting, Observers
from ullage.sim.world.scores import ScoreSheet
from ullage.sim.world.spec import SCHEDULER, Arrival, WorldSpec
from ullage.sim.world.violation import Violation
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
        self.observers = Observers(server, clock, self.cloud, checks=spec.invariants)
        self.observers.books.node_listeners.append(self._node_changed)
        self._forgetting = Forgetting(server, clock, nature, spec.keep_events_seconds)
        self.loops = Loops(spec, server, self.cloud)
        self.actors: Actors
        self._began = clock.now()
        self._namespaces = {"default"}

    @property
    def decisions(self) -> Decisions:
        return self.observers.decisions

    @property
    def scores(self) -> ScoreSheet:
        """Brought to the present."""
        self.observers.scorer.advance()
        return self.observers.scorer.sheet

    @property
    def violation(self) -> Violation | None:
        """The first thing that must always hold and did not."""
        checking = self.observers.checking
        breach = None if checking is None else checking.breach
        if breach is None:
            return None
        return Violation(
            at=breach.at - self._began,
            rule=breach.rule,
            breach=breach.sentence,
            about=breach.about,
            story=tuple(self.observers.stories.of(breach.about)),
        )

    async def broken(self) -> None:
        """Wait until something that must always hold does not. For ever, where nobody asks."""
        if self.observers.checking is None:
            await asyncio.get_running_loop().create_future()
        else:
            await self.observers.checking.broken()

    def check_the_end(self) -> None:
        """Ask what can only be asked when nothing more is to come."""
        if self.observers.checking is not None:
            self.observers.checking.check_the_end(self.clock.now())

    def report(self) -> dict[str, Any]:
        """The score sheet as plain JSON."""
        return self.scores.report(self.loops.metrics.attempts)

    def begin(self) -> None:
        """Everything has been made: now it begins."""
        self._began = self.clock.now()
        self.observers.begin(self._began)

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
        """Of a loop."""
        return self.loops.processes[PROCESS_OF[name]]

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

    def _node_changed(self, step: Step[NodeNow]) -> None:
        if step.after is None:
            # Nothing is written while the store tells of a change.
            asyncio.get_running_loop().call_soon(self.agents.remove, step.fact.name)


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
    await _make(world)
    rng = random.Random(spec.seed + 1)
    nature = RestApi(InMemoryTransport(server, user="kubelet"), rng=rng, lossless=not spec.faults)
    collected = replace(spec.actors, custom=(*spec.actors.custom, GPU_CLAIMS, GPU_NODE_STATUSES))
    async with (
        start_actors(nature, clock, collected) as world.actors,
        _beside(world.cloud.run(), world.agents.run()),
    ):
        world.begin()
        world.loops.start()
        try:
            await world.loops.wait_ready()
            yield world
        finally:
            world.loops.crash()


async def _make(world: World) -> None:
    spec = world.spec
    await install(world.api, (*OURS, POD_GROUP))
    world.make_namespace(spec.scheduler.lease_namespace)
    setup.adopt_machines(world.cloud, spec)
    for node in spec.nodes:
        world.joining.join(node)
    reports, others = setup.split_reports(spec.objects)
    world.submit(Arrival(at=0.0, objects=tuple(others)))
    setup.install_agents(world.agents, reports)
    speaking, were = setup.split_restored(spec)
    for manifest in were:
        world.server.restore(manifest)
    setup.install_agents(world.agents, speaking)
    await setup.lease_what_is_given(world.api, world.observers.books, spec.scheduler.lease_namespace, world.clock)


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
