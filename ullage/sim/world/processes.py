"""Live loops as processes of a simulated world: each has its own connection and runs its own start function.

Provisioning and draining are one process, as in `ullage controller`. A new process needs a line in `_PROGRAMS`, and its
loops need settings in the spec.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from ullage.act.concurrency import ended
from ullage.clock import Clock
from ullage.cloud.simulated import SimulatedCloud
from ullage.control.draining.wiring import DrainController
from ullage.control.karpenter.wiring import KarpenterController
from ullage.control.leader.election import ElectionLease, LeaderElector
from ullage.control.leader.guard import StandbyTransport
from ullage.control.leader.leadership import Leadership, lead
from ullage.control.provisioning.wiring import ControllerEnvironment, ProvisioningController
from ullage.control.scheduling.wiring import Scheduler
from ullage.errors import ApiError, LeadershipLost, UserError
from ullage.kube.client.api import KubeApi
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Transport
from ullage.observe.draining_metrics import DrainMetrics
from ullage.observe.provisioning_metrics import ProvisioningMetrics
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import Latency, NetworkConditions
from ullage.sim.process import ProcessRun, SimulatedProcess
from ullage.sim.renewal import SimulatedRenewal
from ullage.sim.world.cloud import EveryProvider
from ullage.sim.world.scorer import CountingMetrics
from ullage.sim.world.spec import DRAINING, KARPENTER, PROVISIONING, SCHEDULER, WorldSpec

CONTROLLER = "controller"
PROCESS_OF: Mapping[str, str] = {SCHEDULER: SCHEDULER, PROVISIONING: CONTROLLER, DRAINING: CONTROLLER}
"""Process of each loop. The process's name is also its user name at the API server."""
OURS = tuple(dict.fromkeys(PROCESS_OF.values()))
_LATER = 1.0
"""Seconds until a process whose program ended with an ApiError starts again."""


MakeNetwork = Callable[[str, int, Latency], NetworkConditions]
"""Factory of the network between a process and the API server. Arguments: the process's name, a seed, the latency."""


def plain_network(name: str, seed: int, latency: Latency) -> NetworkConditions:  # noqa: ARG001 - MakeNetwork
    """Network without faults."""
    return NetworkConditions(seed=seed, latency=latency)


class WorldProcesses:
    """All processes of one world."""

    def __init__(
        self,
        spec: WorldSpec,
        server: SimulatedApiServer,
        cloud: SimulatedCloud,
        network: MakeNetwork = plain_network,
    ) -> None:
        unknown = [name for name in spec.loops if name not in PROCESS_OF]
        if unknown:
            raise UserError(f"there is no loop called {', '.join(unknown)}; there are {', '.join(PROCESS_OF)}")
        self.spec = spec
        self.cloud = cloud
        self.metrics = CountingMetrics(CollectorRegistry())
        self.provisioning_metrics: ProvisioningMetrics | None = None
        self.drain_metrics: DrainMetrics | None = None
        if spec.controller_metrics:
            self.provisioning_metrics = ProvisioningMetrics(CollectorRegistry())
            self.drain_metrics = DrainMetrics(CollectorRegistry())
        self.running: dict[str, Any] = {}
        """Live object of each loop, in its present run."""
        users = dict.fromkeys(PROCESS_OF[name] for name in spec.loops)
        names = {name: user for user in users for name in _replicas(user, spec)}
        self.network = {name: network(name, _seed(spec, name), spec.latency) for name in names}
        self.processes = {name: self._process(name, user, server) for name, user in names.items()}

    def start(self) -> None:
        for process in self.processes.values():
            process.start()

    def crash(self) -> None:
        for process in self.processes.values():
            if process.alive:
                process.crash()

    async def wait_ready(self) -> None:
        """Wait until every loop has read the cluster once."""
        while not all(name in self.running and self.running[name].ready for name in self.spec.loops):  # noqa: ASYNC110 - a life may end before it is
            await asyncio.sleep(0.05)

    def _process(self, name: str, user: str, server: SimulatedApiServer) -> SimulatedProcess:
        chance = random.Random(_seed(self.spec, name))
        run = _schedule_elected if user == SCHEDULER and self.spec.scheduler_replicas > 1 else _PROGRAMS[user]

        async def program(life: ProcessRun) -> None:
            rng = random.Random(chance.getrandbits(32))
            while True:
                try:
                    await run(self, life, rng, chance.getrandbits(32))
                except ApiError:
                    await asyncio.sleep(_LATER)

        return SimulatedProcess(
            name,
            lambda: InMemoryTransport(server, user=user, network=self.network[name]),
            program,
        )

    def api(self, transport: Transport, rng: random.Random) -> KubeApi:
        """API over a process's transport."""
        return RestApi(transport, rng=rng, lossless=not self.spec.faults)

    def scheduler(self, api: KubeApi, clock: Clock, seed: int) -> Scheduler:
        """Scheduler of one run."""
        instance = f"scheduler-{seed}"
        return Scheduler(api, self.spec.settings, clock, instance=instance, seed=seed, metrics=self.metrics)


_Program = Callable[[WorldProcesses, ProcessRun, random.Random, int], Coroutine[Any, Any, None]]


async def _schedule(loops: WorldProcesses, life: ProcessRun, rng: random.Random, seed: int) -> None:
    scheduler = loops.scheduler(loops.api(life.transport, rng), life.clock, seed)
    loops.running[SCHEDULER] = scheduler
    await scheduler.run()


async def _schedule_elected(loops: WorldProcesses, life: ProcessRun, rng: random.Random, seed: int) -> None:
    """Terms of one replica, each with a scheduler of its own, as `ullage scheduler` runs them."""
    lease = ElectionLease(loops.spec.settings.scheduling.lease_namespace, "ullage-scheduler", f"{life.name}-{seed}")
    elector = LeaderElector(loops.api(life.transport, rng), lease, clock=life.clock, rng=rng)
    while True:
        transport, elected = StandbyTransport(life.transport), asyncio.Event()
        scheduler = loops.scheduler(loops.api(transport, rng), life.clock, rng.getrandbits(32))
        running = asyncio.create_task(scheduler.run(elected.wait), name="scheduler")

        async def term(
            leadership: Leadership,
            transport: StandbyTransport = transport,
            elected: asyncio.Event = elected,
            running: asyncio.Task[None] = running,
            scheduler: Scheduler = scheduler,
        ) -> None:
            transport.elected(leadership)
            loops.running[SCHEDULER] = scheduler
            elected.set()
            await running

        try:
            await lead(SimulatedRenewal(life, elector), term)
        except* LeadershipLost:
            pass
        finally:
            await ended(running)


async def _control(loops: WorldProcesses, life: ProcessRun, rng: random.Random, seed: int) -> None:
    spec, providers = loops.spec, EveryProvider(loops.cloud)
    api, clock = loops.api(life.transport, rng), life.clock
    host = ControllerEnvironment(
        instance=f"controller-{seed}",
        providers=providers,
        provisions=PROVISIONING in spec.loops,
        metrics=loops.provisioning_metrics,
    )
    provisioning = ProvisioningController(api, spec.settings, clock, seed=seed, host=host)
    loops.running[PROVISIONING] = provisioning
    if DRAINING in spec.loops:
        loops.running[DRAINING] = DrainController(provisioning, spec.settings, metrics=loops.drain_metrics)
    if spec.karpenter is not None:
        loops.running[KARPENTER] = KarpenterController(
            provisioning,
            spec.settings.karpenter,
            schedulers=spec.settings.scheduler_names,
            lease_namespace=spec.settings.scheduling.lease_namespace,
            seed=seed,
        )
    await provisioning.run()


_PROGRAMS: Mapping[str, _Program] = {SCHEDULER: _schedule, CONTROLLER: _control}


def _replicas(user: str, spec: WorldSpec) -> list[str]:
    """Names of a program's processes. All of them are the same user at the API server."""
    count = spec.scheduler_replicas if user == SCHEDULER else 1
    return [user, *(f"{user}-{number}" for number in range(2, count + 1))]


def _seed(spec: WorldSpec, name: str) -> int:
    """Seed of one process. Its random numbers do not depend on which other processes run."""
    return random.Random(f"{spec.seed} {name}").getrandbits(32)
