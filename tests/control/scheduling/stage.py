"""A GPU cluster on the simulated API server in virtual time: kubelets, controllers, agents; schedulers that crash."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.control.scheduling.fleet import add_nodes, each, report
from ullage.clock import Clock
from ullage.config.settings import Settings
from ullage.control.scheduling.wiring import Scheduler
from ullage.errors import ApiError
from ullage.kube.client.api import DELETE_NOW, KubeApi
from ullage.kube.client.resources import EVENTS, GPU_CLAIMS, LEASES, NAMESPACES, PODS, RESOURCE_CLAIMS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.catalog import POD_GROUP
from ullage.kube.crds.install import install
from ullage.kube.objects.gpu import GpuClaim
from ullage.kube.objects.meta import Condition
from ullage.kube.read.leases import OUR_LEASES, read_gpu_lease
from ullage.model.device import Device
from ullage.model.lease import GpuLease
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import FaultRates, Latency, NetworkConditions
from ullage.sim.controllers.wiring import ControllerManagerSettings, start_actors
from ullage.sim.kubelet.timings import DurationRange, KubeletTimings
from ullage.sim.process import ProcessRun, SimulatedProcess
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_namespace
from ullage.testing.checks.claims import claim_breaches, gang_breaches
from ullage.testing.checks.pending_pods import read_fresh, waiting_for_nothing
from ullage.testing.checks.placement import PlacementReading, breaches, read_placements
from ullage.testing.checks.placement_history import PlacementHistory

LEASE_NAMESPACE = "ullage-system"
NS = "default"
LATENCY = Latency(default=0.004, spread=0.5, watch=0.01)
REPORT_SECONDS = 30.0
SOON = DurationRange(0.1, 1.0)


@dataclass(frozen=True)
class Setting:
    """What a story plays in."""

    nodes: int
    schedulers: int = 1
    seed: int = 1
    odds: FaultRates = field(default_factory=FaultRates)
    """What befalls the calls of schedulers."""
    latency: Latency = LATENCY
    stop: DurationRange = SOON
    """Seconds pods take to end when told to."""
    groups: bool = True
    """Whether the cluster has PodGroups from the start."""
    leases_vanish: bool = False
    """Users delete Leases, which have to be made again: in the end they are all there."""


@dataclass
class Stage:
    """A cluster with GPU nodes and schedulers at work."""

    api: KubeApi
    clock: Clock
    server: SimulatedApiServer
    history: PlacementHistory
    schedulers: list[SimulatedProcess] = field(default_factory=list)
    network: list[NetworkConditions] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    """Nodes whose agents do not report."""
    hardware: dict[str, tuple[Device, ...]] = field(default_factory=dict)
    """GPUs by node, where they are others than at first."""
    agents_ahead: float = 0.0
    """Seconds the clocks of all agents are ahead."""

    async def bound(self) -> dict[str, str]:
        """Pods with a node."""
        return {
            pod.metadata.name: pod.spec.node_name for pod in (await self.api.list(PODS)).items if pod.spec.node_name
        }

    async def condition(self, pod: str) -> Condition:
        """What the pod says of why it waits, or of its having been placed."""
        conditions = (await self.api.get(PODS, pod, NS)).status.conditions
        return next(one for one in conditions if one.type == "PodScheduled")

    async def claim(self, name: str) -> GpuClaim:
        return await self.api.get(GPU_CLAIMS, name, NS)

    async def events(self, pod: str) -> dict[str, str]:
        """The last note of each reason told of a pod."""
        told = (await self.api.list(EVENTS, NS)).items
        return {one["reason"]: one["note"] for one in told if one["regarding"]["name"] == pod}

    async def delete(self, *pods: str) -> None:
        await each(pods, lambda name: self.api.delete(PODS, name, NS, how=DELETE_NOW))

    async def becomes(self, node: str, devices: tuple[Device, ...]) -> None:
        """The node's GPUs are these from now on, and its agent says so at once."""
        self.hardware[node] = devices
        await report(self.api, node, self.clock, devices)

    async def leases(self) -> dict[int, GpuLease]:
        """Of the only node, by GPU."""
        found = (await self.api.list(LEASES, LEASE_NAMESPACE, selection=OUR_LEASES)).items
        return {lease.device: lease for lease in map(read_gpu_lease, found)}

    async def read(self) -> PlacementReading:
        return await read_placements(self.api, LEASE_NAMESPACE)

    async def wrong(self) -> list[str]:
        """Everything that is wrong now, claims, gangs and pods that wait for nothing included."""
        reading = await self.read()
        snapshot = await read_fresh(self.api, LEASE_NAMESPACE)
        waiting = waiting_for_nothing(snapshot, now=self.clock.now())
        return [*breaches(reading), *claim_breaches(reading), *gang_breaches(reading), *waiting]

    async def until(self, holds: Callable[[], Awaitable[Any]], seconds: float = 120.0, *, every: float = 0.25) -> float:
        """Wait until it holds; returns how long that took."""
        began = self.clock.now()
        while not await holds():
            assert self.clock.now() - began < seconds, f"not within {seconds:g} s: {await self.wrong()}"
            await asyncio.sleep(every)
        return self.clock.now() - began

    async def at_rest(self, seconds: float = 120.0) -> None:
        """Until nothing is wrong any more."""

        async def nothing_wrong() -> bool:
            return not await self.wrong()

        await self.until(nothing_wrong, seconds, every=2.0)

    async def keep_reporting(self, names: list[str]) -> None:
        async def tell(name: str) -> None:
            with suppress(ApiError):
                await report(self.api, name, self.clock, self.hardware.get(name), ahead=self.agents_ahead)

        while True:
            await asyncio.sleep(REPORT_SECONDS)
            await each([name for name in names if name not in self.silent], tell)


def an_api(server: SimulatedApiServer, seed: int) -> RestApi:
    return RestApi(InMemoryTransport(server), rng=random.Random(seed))


def a_scheduler(server: SimulatedApiServer, number: int, network: NetworkConditions, seed: int) -> SimulatedProcess:
    """A process that can be crashed and started again."""
    lives: Iterator[int] = iter(range(1, 1_000_000))

    async def program(life: ProcessRun) -> None:
        attempt = next(lives)
        rng = random.Random(f"{seed} {number} {attempt}")
        api = RestApi(life.transport, rng=rng)
        settings = Settings()
        instance = f"scheduler-{number}-{attempt}"
        while True:
            try:
                await Scheduler(api, settings, life.clock, instance=instance, seed=rng.getrandbits(32)).run()
            except ApiError:
                await asyncio.sleep(1.0)  # what a program says before it is ready, its kubelet starts it again for

    return SimulatedProcess(
        f"scheduler-{number}",
        lambda: InMemoryTransport(server, user=f"scheduler-{number}", network=network),
        program,
    )


@asynccontextmanager
async def staged(setting: Setting) -> AsyncIterator[Stage]:
    """The stage, with everything at work; whatever happened on it is judged at the end."""
    clock, seed = loop_clock(), setting.seed
    server = SimulatedApiServer(clock, seed=seed)
    api = an_api(server, seed)
    await install(api)
    if setting.groups:
        await install(api, (POD_GROUP,))
    await api.create(NAMESPACES, a_namespace(LEASE_NAMESPACE))
    names = [f"node-{number:02d}" for number in range(setting.nodes)]
    await add_nodes(api, names, clock)
    played = ControllerManagerSettings(
        behaviour=KubeletTimings(seed=seed, stop=setting.stop), custom=(GPU_CLAIMS, RESOURCE_CLAIMS[0]), seed=seed
    )
    async with (
        start_actors(an_api(server, seed + 1), clock, played),
        PlacementHistory(an_api(server, seed + 2), LEASE_NAMESPACE) as history,
    ):
        stage = Stage(api, clock, server, history)
        agents = asyncio.ensure_future(stage.keep_reporting(names))
        for number in range(setting.schedulers):
            network = NetworkConditions(seed=seed * 100 + number, latency=setting.latency, odds=setting.odds)
            stage.network.append(network)
            stage.schedulers.append(a_scheduler(server, number, network, seed))
            stage.schedulers[-1].start()
        try:
            yield stage
            await history.whole()
        finally:
            for process in stage.schedulers:
                process.crash()
            agents.cancel()
            await asyncio.gather(agents, return_exceptions=True)
    assert list(history.breaches(restored=setting.leases_vanish)) == []


def play(setting: Setting, story: Callable[[Stage], Awaitable[None]]) -> None:
    """Tell a story."""

    async def live() -> None:
        async with staged(setting) as stage:
            await story(stage)

    run_virtual(live())
