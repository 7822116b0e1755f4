"""Assembly and shutdown of a simulated world."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec

from ullage.clock import Clock
from ullage.cloud.simulated import SimulatedCloud
from ullage.control.vms.permits import PermitHandler
from ullage.errors import AlreadyExists
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import GPU_CLAIMS, GPU_NODE_STATUSES, RESOURCE_CLAIMS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.catalog import OURS, POD_GROUP, VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.objects.gpu import GpuNodeStatus
from ullage.kube.read.gpu import read_inventory
from ullage.model.device import Inventory
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.controllers.wiring import ControllerManager, start_actors
from ullage.sim.karpenter.kube_scheduler import SimulatedKubeScheduler
from ullage.sim.process import SimulatedProcess
from ullage.sim.virtual_time import loop_clock
from ullage.sim.world import setup
from ullage.sim.world.admin_client import AdminClient
from ullage.sim.world.agents import AgentFleet, ImplicitAgents, MakeAgents
from ullage.sim.world.cloud import NodeJoiner, make_cloud
from ullage.sim.world.decisions import DecisionLog
from ullage.sim.world.karpenter import WorldKarpenter, install_karpenter
from ullage.sim.world.object_mirror import ObjectChange
from ullage.sim.world.observers import EventExpiry, Observers
from ullage.sim.world.processes import PROCESS_OF, MakeNetwork, WorldProcesses, plain_network
from ullage.sim.world.scores import ScoreSheet
from ullage.sim.world.spec import SCHEDULER, Arrival, WorldSpec
from ullage.sim.world.stored_objects import StoredNode
from ullage.sim.world.violation import InvariantViolation
from ullage.sim.world.vms import AGENT, WorldVms
from ullage.state.cluster import ClusterState
from ullage.state.snapshot import ClusterSnapshot

USER = "user"
"""User name for the creation and deletion of arrivals."""
CLOUD = "cloud"
"""User name for Nodes made from instances, and for the reports of their agents."""
KUBE_SCHEDULER = "kube-scheduler"
"""User name of the simulated kube-scheduler."""
_HISTORY = 2_000
"""Changes kept per resource. Few are ever needed, because watches do not end here."""


class World:
    """A running simulated cluster. `started_world` makes it."""

    def __init__(
        self,
        spec: WorldSpec,
        server: SimulatedApiServer,
        clock: Clock,
        make_agents: MakeAgents,
        network: MakeNetwork = plain_network,
    ) -> None:
        self.spec = spec
        self.server = server
        self.clock = clock
        self.api: KubeApi = RestApi(InMemoryTransport(server), rng=random.Random(spec.seed), lossless=not spec.faults)
        """API for the simulated user: no latency, no faults."""
        self.hand = AdminClient(server, USER)
        """Same, synchronous."""
        nature = AdminClient(server, CLOUD)
        self.agents: AgentFleet = make_agents(nature, clock, spec.faults)
        self.joining = NodeJoiner(nature, self.agents, spec.cloud.gpu_seconds)
        self.cloud: SimulatedCloud = make_cloud(spec.cloud, clock, self.joining)
        self.observers = Observers(server, clock, self.cloud, spec.prices, checks=spec.invariants)
        self.observers.mirror.node_listeners.append(self._node_changed)
        self._forgetting = EventExpiry(server, clock, nature, spec.keep_events_seconds)
        self.loops = WorldProcesses(spec, server, self.cloud, network)
        self.vms: WorldVms | None = None
        if spec.vms is not None:
            self.vms = WorldVms(spec.vms, server, clock, self._permits, seed=spec.seed, lossless=not spec.faults)
            self.observers.check_vms(AGENT, spec.settings.vms.migration_cooldown)
        self.karpenter: WorldKarpenter | None = None
        if spec.karpenter is not None:
            self.karpenter = WorldKarpenter(
                spec.karpenter, self.api_of, clock, self.agents, spec.seed, announces=spec.kube_scheduler
            )
        self.actors: ControllerManager
        self._began = clock.now()
        self._namespaces = {"default"}

    @property
    def decisions(self) -> DecisionLog:
        return self.observers.decisions

    @property
    def scores(self) -> ScoreSheet:
        """Score sheet, brought to the present."""
        self.observers.scorer.advance()
        return self.observers.scorer.sheet

    @property
    def violation(self) -> InvariantViolation | None:
        """First broken invariant, if any."""
        checking = self.observers.checking
        breach = None if checking is None else checking.breach
        if breach is None:
            return None
        return InvariantViolation(
            at=breach.at - self._began,
            rule=breach.rule,
            breach=breach.sentence,
            about=breach.about,
            story=tuple(self.observers.stories.of(breach.about)),
        )

    async def broken(self) -> None:
        """Wait until an invariant is broken; for ever if invariants are not checked."""
        if self.observers.checking is None:
            await asyncio.get_running_loop().create_future()
        else:
            await self.observers.checking.broken()

    def check_the_end(self) -> None:
        """Check the invariants that can only be checked after the last change."""
        if self.observers.checking is not None:
            self.observers.checking.check_the_end(self.clock.now())

    def report(self, *, at_rest: bool = False) -> dict[str, Any]:
        """Score sheet as plain JSON: up to now, or up to the last change if nothing has happened since."""
        sheet = self.observers.scorer.sheet if at_rest else self.scores
        return sheet.report(self.loops.metrics.attempts)

    def begin(self) -> None:
        """Begin the run, after everything has been created."""
        self._began = self.clock.now()
        self.observers.begin(self._began)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self.clock.now() - self._began

    @property
    def snapshot(self) -> ClusterSnapshot:
        """Snapshot the scheduler decides on."""
        snapshot: ClusterSnapshot = self.loop(SCHEDULER).core.snapshot
        return snapshot

    @property
    def state(self) -> ClusterState:
        """Cluster as the scheduler has observed it."""
        return self.snapshot.state

    def reported(self, node: str) -> Inventory | None:
        """GPUs of a node as its agent last reported them; None without a report."""
        manifest = self.hand.read(GPU_NODE_STATUSES, node)
        return None if manifest is None else read_inventory(msgspec.convert(manifest, GpuNodeStatus))

    def process(self, name: str) -> SimulatedProcess:
        """Process of a loop."""
        return self.loops.processes[PROCESS_OF[name]]

    def loop(self, name: str) -> Any:
        """Live object of a loop, in its present run."""
        return self.loops.running[name]

    def submit(self, arrival: Arrival) -> None:
        """Create the arrival's objects now, whatever its time says."""
        for manifest in arrival.objects:
            namespace = manifest["metadata"].get("namespace", "default")
            if namespace not in self._namespaces:
                self.make_namespace(namespace)
            self.hand.create(manifest)

    def make_namespace(self, name: str) -> None:
        """Create the namespace if it does not exist."""
        self._namespaces.add(name)
        try:
            self.hand.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        except AlreadyExists:
            return

    async def sleep_until(self, seconds: float) -> None:
        """Sleep until `seconds` since the beginning."""
        await asyncio.sleep(max(0.0, seconds - self.elapsed))

    def api_of(self, user: str) -> KubeApi:
        """API of a user of this name: no latency, no faults."""
        rng = random.Random(f"{self.spec.seed} {user}")
        return RestApi(InMemoryTransport(self.server, user=user), rng=rng, lossless=not self.spec.faults)

    def _permits(self) -> PermitHandler | None:
        """Handler of the scheduler, once it knows all VMs; None while it does not run."""
        running = self.loops.running.get(SCHEDULER)
        if running is None or not self.process(SCHEDULER).alive or not running.ready:
            return None
        handler: PermitHandler = running.vms.handler
        return handler

    def _node_changed(self, step: ObjectChange[StoredNode]) -> None:
        if step.after is None:
            # Listeners of the store must not write: the write follows in the next iteration of the loop.
            asyncio.get_running_loop().call_soon(self.agents.remove, step.fact.name)
        if self.vms is not None and (step.before is None or step.after is None):
            change = self.vms.add if step.before is None else self.vms.remove
            asyncio.get_running_loop().call_soon(change, step.fact.name)


@asynccontextmanager
async def started_world(
    spec: WorldSpec,
    *,
    agents: MakeAgents = ImplicitAgents,
    admission: Callable[[SimulatedApiServer], None] = lambda _: None,
    network: MakeNetwork = plain_network,
) -> AsyncIterator[World]:
    """A world in which every loop has read the cluster once and works, until the block ends."""
    clock = loop_clock()
    server = SimulatedApiServer(clock, seed=spec.seed, history=_HISTORY)
    admission(server)
    world = World(spec, server, clock, agents, network)
    await _make(world)
    rng = random.Random(spec.seed + 1)
    nature = RestApi(InMemoryTransport(server, user="kubelet"), rng=rng, lossless=not spec.faults)
    collected = replace(spec.actors, custom=(*spec.actors.custom, GPU_CLAIMS, GPU_NODE_STATUSES, RESOURCE_CLAIMS[0]))
    async with (
        start_actors(nature, clock, collected) as world.actors,
        _beside(world.cloud.run(), world.agents.run(), *_guests(world)),
    ):
        world.begin()
        world.loops.start()
        try:
            await world.loops.wait_ready()
            yield world
        finally:
            world.loops.crash()


def _guests(world: World) -> list[Coroutine[Any, Any, None]]:
    """Work of the world's Karpenter, kube-scheduler, and VM controller and agents, if it has them."""
    spec, guests = world.spec, [one.run() for one in (world.karpenter, world.vms) if one is not None]
    if spec.kube_scheduler and spec.karpenter is None:
        api = world.api_of(KUBE_SCHEDULER)
        guests.append(SimulatedKubeScheduler(api, world.clock, seed=spec.seed + 1, announces=True).run())
    return guests


async def _make(world: World) -> None:
    spec = world.spec
    await install(world.api, (*OURS, POD_GROUP, *VM_KINDS))  # a kind that is missing is looked for again and again
    if spec.karpenter is not None:
        await install_karpenter(world.api)
    world.make_namespace(spec.settings.scheduling.lease_namespace)
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
    await setup.lease_what_is_given(
        world.api, world.observers.mirror, spec.settings.scheduling.lease_namespace, world.clock
    )


@asynccontextmanager
async def _beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run coroutines beside the block. An error in one of them ends the block with that error."""
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
