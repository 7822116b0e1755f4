"""VMs of a simulated world: VM controller with its hypervisors, and a vm-agent on every node.

Agents ask the permit handler of the world's scheduler, in its present run, without sockets. Requests that change
nothing are left out, and metrics are read when the load changes.
"""

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from ullage.clock import Clock
from ullage.control.vms.permits import PermitHandler
from ullage.decide.vm_agent.core import AgentTimings
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import VIRTUAL_MACHINES
from ullage.kube.client.rest import RestApi
from ullage.model.units import Seconds
from ullage.model.vm import MIGRATION_ENABLED, SCALING_ENABLED, VmAmounts
from ullage.observe.vm_agent_metrics import VmAgentMetrics
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.vms.controller import HypervisorTimings
from ullage.sim.vms.guest_load import BurstyLoad, SimulatedGuests
from ullage.sim.vms.loop import SimulatedVmController
from ullage.sim.vms.permit_transport import InMemoryPermits
from ullage.vm_agent.client import PermitClient
from ullage.vm_agent.executor import ScalingPolicy
from ullage.vm_agent.wiring import AgentOutside, VmAgent

AGENT = "vm-agent"
"""User name of all agents."""
HYPERVISOR = "vm-controller"
_GI = 1 << 30
_TIMINGS = AgentTimings(tick=Seconds(math.inf), metrics_expire=Seconds(math.inf))
_UNIT = VmAmounts(250, _GI)
_HYPERVISOR = HypervisorTimings()


@dataclass(frozen=True, slots=True, kw_only=True)
class VmWorldSpec:
    """VMs of a world: their load, their hypervisors, and the network between agents and scheduler."""

    load: BurstyLoad = field(default_factory=lambda: BurstyLoad(seed=0))
    unit: VmAmounts = _UNIT
    hypervisor: HypervisorTimings = _HYPERVISOR
    migration_failures: float = 0.1
    lost: float = 0.01
    """Part of the permit requests that are lost, or their answers."""


class WorldVms:
    """VM controller and agents of one world. `run` until cancelled."""

    def __init__(
        self,
        spec: VmWorldSpec,
        server: SimulatedApiServer,
        clock: Clock,
        handler: Callable[[], PermitHandler | None],
        *,
        seed: int,
        lossless: bool,
    ) -> None:
        self._spec = spec
        self._server = server
        self._clock = clock
        self._handler = handler
        self._seed = seed
        self._lossless = lossless
        self.guests = SimulatedGuests(spec.load, clock)
        self.agents: dict[str, VmAgent] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._waiting: list[str] = []
        self.reachable = True
        """False while no agent reaches the scheduler."""

    async def run(self) -> None:
        """Run until cancelled."""
        spec, timings = self._spec, self._spec.hypervisor
        controller = SimulatedVmController(
            self._api(HYPERVISOR), self._clock, timings, migration_failures=spec.migration_failures, seed=self._seed
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run(), name=HYPERVISOR)
            self._group = group
            for node in self._waiting:
                self.add(node)

    def add(self, node: str) -> None:
        """Start the agent of a node."""
        if self._group is None:
            self._waiting.append(node)
            return
        spec = self._spec
        wire = InMemoryPermits(self._permits, node, loss=spec.lost, seed=self._seed)
        outside = AgentOutside(self._api(AGENT), PermitClient(wire), self.guests)
        policy = ScalingPolicy(unit=spec.unit, timings=_TIMINGS)
        metrics = VmAgentMetrics(CollectorRegistry())
        agent = VmAgent(node, outside, policy, self._clock, metrics, seed=self._seed)
        self.agents[node] = agent
        self._tasks[node] = self._group.create_task(agent.run(), name=f"vm-agent of {node}")

    def remove(self, node: str) -> None:
        """End the agent of a node that is gone."""
        if self.agents.pop(node, None) is not None:
            self._tasks.pop(node).cancel()

    def _permits(self) -> PermitHandler | None:
        return self._handler() if self.reachable else None

    def _api(self, user: str) -> RestApi:
        wire = InMemoryTransport(self._server, user=user)
        return RestApi(wire, rng=random.Random(f"{self._seed} {user}"), lossless=self._lossless)


def virtual_machine(
    name: str, scheduler: str, use: VmAmounts, largest: VmAmounts, *, unit: VmAmounts = _UNIT
) -> JsonObject:
    """Manifest of a VM that an agent resizes and that may be migrated. Memory slots of 1Gi."""

    def sizes(least: int, now: int, most: int) -> JsonObject:
        return {"min": least, "use": now, "max": most}

    cpus = {key: f"{value}m" for key, value in sizes(unit.cpu, use.cpu, largest.cpu).items()}
    slots = sizes(unit.memory // _GI, use.memory // _GI, largest.memory // _GI)
    return {
        "apiVersion": VIRTUAL_MACHINES.api_version,
        "kind": VIRTUAL_MACHINES.kind,
        "metadata": {"name": name, "labels": {SCALING_ENABLED: "true", MIGRATION_ENABLED: "true"}},
        "spec": {"schedulerName": scheduler, "guest": {"cpus": cpus, "memorySlots": slots}},
    }
