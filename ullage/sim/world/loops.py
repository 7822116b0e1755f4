"""The live loops as processes of a simulated world, each with its own connection, started by their own start functions.

A loop that the world does not have yet gets a line in `START`, and settings in the spec.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from prometheus_client import CollectorRegistry

from ullage.clock import Clock
from ullage.cloud.simulated import SimulatedCloud
from ullage.control.provisioning.start import Host, Provisioning
from ullage.control.scheduling.start import Scheduler
from ullage.errors import ApiError, UserError
from ullage.kube.api import KubeApi
from ullage.kube.rest import RestApi
from ullage.observe.metrics import SchedulerMetrics
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.weather import Weather
from ullage.sim.process import Life, Process
from ullage.sim.world.cloud import EveryProvider
from ullage.sim.world.spec import PROVISIONING, SCHEDULER, WorldSpec

_LATER = 1.0
"""Seconds until a loop that its API server threw out begins again."""


class Loop(Protocol):
    """A live loop: it has heard everything when it is ready, and runs until cancelled."""

    @property
    def ready(self) -> bool: ...

    async def run(self) -> None: ...


class Loops:
    """All that run in one world."""

    def __init__(self, spec: WorldSpec, server: SimulatedApiServer, cloud: SimulatedCloud) -> None:
        unknown = [name for name in spec.loops if name not in START]
        if unknown:
            raise UserError(f"there is no loop called {', '.join(unknown)}; there are {', '.join(sorted(START))}")
        self.spec = spec
        self.cloud = cloud
        self.metrics = SchedulerMetrics(CollectorRegistry())
        self.weather = {name: Weather(seed=_seed(spec, name), latency=spec.latency) for name in spec.loops}
        self.running: dict[str, Any] = {}
        """The live object of each loop, in its present life."""
        self.processes = {name: self._process(name, server) for name in spec.loops}

    def start(self) -> None:
        for process in self.processes.values():
            process.start()

    def crash(self) -> None:
        for process in self.processes.values():
            if process.alive:
                process.crash()

    async def wait_ready(self) -> None:
        """Until every loop has heard everything there was."""
        while not all(name in self.running and self.running[name].ready for name in self.processes):
            await asyncio.sleep(0.05)

    def _process(self, name: str, server: SimulatedApiServer) -> Process:
        chance = random.Random(_seed(self.spec, name))

        async def program(life: Life) -> None:
            api = RestApi(
                life.transport, rng=random.Random(chance.getrandbits(32)), lossless=not self.spec.faults
            )
            while True:
                self.running[name] = loop = START[name](self, api, life.clock, chance.getrandbits(32))
                try:
                    await loop.run()
                except ApiError:
                    await asyncio.sleep(_LATER)

        return Process(name, lambda: InMemoryTransport(server, user=name, weather=self.weather[name]), program)


Start = Callable[[Loops, KubeApi, Clock, int], Loop]


def _scheduler(world: Loops, api: KubeApi, clock: Clock, seed: int) -> Loop:
    return Scheduler(
        api, world.spec.scheduler, clock, instance=f"scheduler-{seed}", seed=seed, metrics=world.metrics
    )


def _provisioning(world: Loops, api: KubeApi, clock: Clock, seed: int) -> Loop:
    host = Host(instance=f"controller-{seed}", providers=EveryProvider(world.cloud))
    return Provisioning(api, world.spec.controller, clock, seed=seed, host=host)


START: Mapping[str, Start] = {SCHEDULER: _scheduler, PROVISIONING: _provisioning}


def _seed(spec: WorldSpec, name: str) -> int:
    """Each has its own chance: what one draws does not depend on who else runs."""
    return random.Random(f"{spec.seed} {name}").getrandbits(32)
