"""Live loops as processes of a simulated world: each has its own connection and runs its own start function.

Provisioning and draining are one process, as in `ullage controller`. A new process needs a line in `_PROGRAMS`, and its
loops need settings in the spec.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from ullage.clock import Clock
from ullage.cloud.simulated import SimulatedCloud
from ullage.control.draining.wiring import DrainController
from ullage.control.provisioning.wiring import ControllerEnvironment, ProvisioningController
from ullage.control.scheduling.wiring import Scheduler
from ullage.errors import ApiError, UserError
from ullage.kube.client.api import KubeApi
from ullage.kube.client.rest import RestApi
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import NetworkConditions
from ullage.sim.process import ProcessRun, SimulatedProcess
from ullage.sim.world.cloud import EveryProvider
from ullage.sim.world.scorer import CountingMetrics
from ullage.sim.world.spec import DRAINING, PROVISIONING, SCHEDULER, WorldSpec

CONTROLLER = "controller"
PROCESS_OF: Mapping[str, str] = {SCHEDULER: SCHEDULER, PROVISIONING: CONTROLLER, DRAINING: CONTROLLER}
"""Process of each loop. The process's name is also its user name at the API server."""
OURS = tuple(dict.fromkeys(PROCESS_OF.values()))
_LATER = 1.0
"""Seconds until a process whose program ended with an ApiError starts again."""


class WorldProcesses:
    """All processes of one world."""

    def __init__(self, spec: WorldSpec, server: SimulatedApiServer, cloud: SimulatedCloud) -> None:
        unknown = [name for name in spec.loops if name not in PROCESS_OF]
        if unknown:
            raise UserError(f"there is no loop called {', '.join(unknown)}; there are {', '.join(PROCESS_OF)}")
        self.spec = spec
        self.cloud = cloud
        self.metrics = CountingMetrics(CollectorRegistry())
        self.running: dict[str, Any] = {}
        """Live object of each loop, in its present run."""
        names = dict.fromkeys(PROCESS_OF[name] for name in spec.loops)
        self.weather = {name: NetworkConditions(seed=_seed(spec, name), latency=spec.latency) for name in names}
        self.processes = {name: self._process(name, server) for name in names}

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

    def _process(self, name: str, server: SimulatedApiServer) -> SimulatedProcess:
        chance = random.Random(_seed(self.spec, name))

        async def program(life: ProcessRun) -> None:
            rng = random.Random(chance.getrandbits(32))
            api = RestApi(life.transport, rng=rng, lossless=not self.spec.faults)
            while True:
                try:
                    await _PROGRAMS[name](self, api, life.clock, chance.getrandbits(32))
                except ApiError:
                    await asyncio.sleep(_LATER)

        return SimulatedProcess(name, lambda: InMemoryTransport(server, user=name, weather=self.weather[name]), program)


_Program = Callable[[WorldProcesses, KubeApi, Clock, int], Coroutine[Any, Any, None]]


async def _schedule(loops: WorldProcesses, api: KubeApi, clock: Clock, seed: int) -> None:
    settings, instance = loops.spec.settings, f"scheduler-{seed}"
    scheduler = Scheduler(api, settings, clock, instance=instance, seed=seed, metrics=loops.metrics)
    loops.running[SCHEDULER] = scheduler
    await scheduler.run()


async def _control(loops: WorldProcesses, api: KubeApi, clock: Clock, seed: int) -> None:
    spec, providers = loops.spec, EveryProvider(loops.cloud)
    host = ControllerEnvironment(
        instance=f"controller-{seed}", providers=providers, provisions=PROVISIONING in spec.loops
    )
    provisioning = ProvisioningController(api, spec.settings, clock, seed=seed, host=host)
    loops.running[PROVISIONING] = provisioning
    if DRAINING in spec.loops:
        loops.running[DRAINING] = DrainController(provisioning, spec.settings)
    await provisioning.run()


_PROGRAMS: Mapping[str, _Program] = {SCHEDULER: _schedule, CONTROLLER: _control}


def _seed(spec: WorldSpec, name: str) -> int:
    """Seed of one process. Its random numbers do not depend on which other processes run."""
    return random.Random(f"{spec.seed} {name}").getrandbits(32)
