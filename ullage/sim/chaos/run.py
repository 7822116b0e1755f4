"""One chaos run: a story on a world with all loops, webhook and agents, then healed and watched until it rests."""

import asyncio
import gc
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ullage.act.concurrency import ended
from ullage.agent.loop import AgentTiming
from ullage.clock import Clock
from ullage.decide.admission.policy import AdmissionPolicy
from ullage.kube.client.resources import GPU_NODE_STATUSES
from ullage.kube.client.rest import RestApi
from ullage.sim.admission import post_webhook
from ullage.sim.agents.fleet import SimulatedAgents, SimulatedAgentSettings
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import Latency
from ullage.sim.chaos.containers import ContainerTable
from ullage.sim.chaos.coverage import FaultCoverage
from ullage.sim.chaos.faults import FaultInjector
from ullage.sim.chaos.liveness import CONVERGES_WITHIN, LivenessBreach, WriteClock, breaches
from ullage.sim.chaos.manifests import arrival_of, first_objects, fleet_of, karpenter_of, settings_of, vms_of
from ullage.sim.chaos.network import ChaosNetwork
from ullage.sim.chaos.story import ChaosStory
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.admin_client import AdminClient
from ullage.sim.world.agents import AgentFleet, ImplicitAgents
from ullage.sim.world.processes import CONTROLLER, OURS
from ullage.sim.world.run import unlogged
from ullage.sim.world.spec import SCHEDULER, WorldSpec
from ullage.sim.world.workload_player import WorkloadPlayer
from ullage.sim.world.world import World, started_world

_STEP_SECONDS = 30.0
_AGENTS = AgentTiming(look=10.0)
"""Agents look five times less often than real ones: looks were a quarter of the cost in a profile of four stories."""

_COLLECTED_AFTER = 50_000
"""Objects that are made before garbage is collected."""

_KUBELETS = 20.0
"""Seconds between renewals of a node's lease: twice those of kubelets, less than half of what makes a node silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosFailure:
    """A promise that a run broke."""

    rule: str
    """Words that are always the same for the same promise."""
    sentence: str
    at: float
    """Seconds since the beginning."""
    history: tuple[str, ...] = ()
    """Latest changes of the objects concerned."""


@dataclass(frozen=True, slots=True)
class ChaosResult:
    """Result of one run."""

    story: ChaosStory
    failure: ChaosFailure | None
    coverage: FaultCoverage
    ended_at: float


def play(story: ChaosStory) -> ChaosResult:
    """Play a story to its end or to its first broken promise. Blocks; needs no loop."""
    coverage = FaultCoverage()
    with unlogged(), _seldom_collected():
        try:
            return run_virtual(_played(story, coverage))
        except Exception as error:  # noqa: BLE001 - a process that ends with an error is a finding, whatever the error
            failure = ChaosFailure(rule="no process ends with an error", sentence=_short(error), at=0.0)
            return ChaosResult(story, failure, coverage, 0.0)


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Collect garbage seldom: a story leaves few cycles behind, and looking for them is a tenth of its cost."""
    before = gc.get_threshold()
    gc.set_threshold(_COLLECTED_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _short(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def _played(story: ChaosStory, coverage: FaultCoverage) -> ChaosResult:
    def network(name: str, seed: int, latency: Latency) -> ChaosNetwork:
        return ChaosNetwork(name, seed, latency, coverage)

    parts = _Parts(story, coverage)
    async with started_world(parts.spec, agents=parts.agents, admission=parts.admission, network=network) as world:
        parts.containers = _watched_containers(world)
        if world.observers.checking is not None:
            world.observers.checking.expect_behind(story.behind_seconds)
        injector = FaultInjector(world, coverage, parts.containers, parts.networks)
        failure = await _ChaosRun(world, story, coverage, injector).watched()
        return ChaosResult(story, failure, coverage, world.elapsed)


class _Parts:
    """World of a story."""

    def __init__(self, story: ChaosStory, coverage: FaultCoverage) -> None:
        self._story = story
        self._coverage = coverage
        self.networks: dict[str, ChaosNetwork] = {}
        """Networks of programs that are no processes of ours on the control plane."""
        self._server: SimulatedApiServer | None = None
        self.containers: ContainerTable | None = None
        self.spec = WorldSpec(
            seed=story.seed,
            nodes=fleet_of(story),
            objects=first_objects(story),
            actors=ControllerManagerSettings(seed=story.seed, heartbeats=True, renewal_seconds=_KUBELETS),
            scheduler_replicas=story.replicas,
            settings=settings_of(story),
            karpenter=karpenter_of(story),
            vms=vms_of(story),
            faults=True,
        )

    def admission(self, server: SimulatedApiServer) -> None:
        self._server = server
        post_webhook(server, AdmissionPolicy(identities=(SCHEDULER,), controllers=(CONTROLLER,)))

    def agents(self, hand: AdminClient, clock: Clock, heartbeats: bool) -> AgentFleet:
        if not self._story.real_agents or self._server is None:
            return ImplicitAgents(hand, clock, heartbeats, self._users)
        seed = self._story.seed + 2
        network = self.networks["agent"] = ChaosNetwork("agent", seed, Latency(), self._coverage)
        api = RestApi(InMemoryTransport(self._server, user="agents", network=network), rng=random.Random(seed))
        settings = SimulatedAgentSettings(heartbeats=heartbeats, seed=seed, pace=_AGENTS, users=self._users)
        return SimulatedAgents(api, clock, settings)

    def _users(self, node: str) -> Mapping[str, Collection[str]]:
        return {} if self.containers is None else self.containers.users(node)


def _watched_containers(world: World) -> ContainerTable:
    """Containers of a world, with the checks on them."""
    checking = world.observers.checking
    table = ContainerTable(
        world.observers.mirror,
        world.actors.kubelets.is_stopped,
        (lambda _: None) if checking is None else checking.report,
        inventory=world.reported,
        scheduler=SCHEDULER,
    )
    world.server.listen(GPU_NODE_STATUSES.id, table.agent_reported)
    cloud = world.cloud
    cloud.on_gone, cloud.on_lost = _both(cloud.on_gone, table.machine_gone), _both(cloud.on_lost, table.machine_gone)
    cloud.on_gone = _both(cloud.on_gone, world.actors.kubelets.fail)  # its Node may outlive it, and is not ready then
    return table


def _both(first: Callable[[str], None], second: Callable[[str], None]) -> Callable[[str], None]:
    def call(machine: str) -> None:
        first(machine)
        second(machine)

    return call


class _ChaosRun:
    """Jobs and faults of one story on one world."""

    def __init__(self, world: World, story: ChaosStory, coverage: FaultCoverage, injector: FaultInjector) -> None:
        self._world = world
        self._story = story
        self._coverage = coverage
        self._injector = injector
        self._writes = WriteClock(world, OURS)

    async def watched(self) -> ChaosFailure | None:
        """Play to the end, or until an invariant breaks."""
        playing = asyncio.create_task(self._play(), name="chaos")
        broken = asyncio.create_task(self._world.broken(), name="invariants")
        try:
            await asyncio.wait((playing, broken), return_when=asyncio.FIRST_COMPLETED)
            if not broken.done():
                late = playing.result()
                self._world.check_the_end()
                return self._violation() or late
            return self._violation()
        finally:
            for task in (playing, broken):
                task.cancel()
            await asyncio.gather(playing, broken, return_exceptions=True)

    def _violation(self) -> ChaosFailure | None:
        found = self._world.violation
        if found is None:
            return None
        return ChaosFailure(rule=found.rule, sentence=found.breach, at=found.at, history=found.story)

    async def _play(self) -> ChaosFailure | None:
        story, world = self._story, self._world
        player = WorkloadPlayer(world, [arrival_of(job) for job in story.jobs], lambda _: None)
        beside = [
            asyncio.create_task(player.play(story.healed_at + 2 * CONVERGES_WITHIN), name="jobs"),
            asyncio.create_task(self._injector.play(story.faults), name="faults"),
        ]
        try:
            await world.sleep_until(story.healed_at)
            await beside[1]
            self._injector.heal()
            return await self._rest()
        finally:
            await ended(*beside)

    async def _rest(self) -> ChaosFailure | None:
        """Wait until nothing is written any more, and judge what is there then."""
        world, deadline = self._world, self._story.healed_at + CONVERGES_WITHIN
        while not self._writes.at_rest(self._story.healed_at):
            if world.elapsed > deadline:
                sentence = f"still at work {CONVERGES_WITHIN:.0f} s after the last fault: {self._writes.what}"
                return ChaosFailure(rule="the world comes to rest", sentence=sentence, at=world.elapsed)
            await asyncio.sleep(_STEP_SECONDS)
        unguarded = [LivenessBreach("a Lease is deleted only as it was read", one) for one in self._coverage.unguarded]
        return next((_late(one, world.elapsed) for one in (*unguarded, *breaches(world))), None)


def _late(breach: LivenessBreach, at: float) -> ChaosFailure:
    return ChaosFailure(rule=breach.rule, sentence=breach.sentence, at=at)
