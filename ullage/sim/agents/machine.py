"""One simulated machine: its GPUs, its agent, and whether the agent reports."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from ullage.act.lease_release import LeaseReleaser
from ullage.agent.kubelet import Kubelet
from ullage.agent.loop import AgentLoop, AgentReporters, AgentSensors, AgentTiming
from ullage.agent.poller import GpuPoller
from ullage.agent.status_writer import NodeStatusWriter
from ullage.clock import Clock, Instant
from ullage.decide.inventory.node_kind import NodeKindMode
from ullage.kube.client.api import KubeApi
from ullage.model.device import NEVER_OLD, DeviceHealth, GpuNodeKind, Inventory
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.units import Steady
from ullage.observe.agent_metrics import AgentMetrics
from ullage.observe.events import EventRecorder
from ullage.sim.agents.hardware import SimulatedGpus, SimulatedProcesses
from ullage.sim.world.agents import GpuUsers, no_users

FRESH_FOR_EVER = Instant(NEVER_OLD)
"""Time of a report that never becomes stale and is therefore not repeated."""

REAL_PACE = AgentTiming()
"""Intervals of real agents."""
TICKLESS = AgentTiming(look=math.inf, report=math.inf)
"""Timing without heartbeats: the agent reads GPUs after an event and reports after a change."""

_LAST_WORDS_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineContext:
    """Dependencies and settings shared by all simulated machines."""

    api: KubeApi
    clock: Clock
    events: EventRecorder
    lease_namespace: str
    heartbeats: bool
    """Agents read and report at the intervals of real ones, with the current time."""
    pace: AgentTiming = REAL_PACE
    """Intervals of agents with heartbeats."""
    users: GpuUsers = no_users
    """Pods whose containers use the GPUs of a node."""


class SimulatedMachine:
    """GPUs of one node and the agent that reports them. `run` until cancelled."""

    def __init__(self, inventory: Inventory, around: MachineContext, pods: Mapping[ObjectKey, Pod]) -> None:
        """`pods` are the pods on this node; the caller keeps the mapping up to date."""
        self.node = inventory.node
        self._pods = pods
        self._processes = SimulatedProcesses(lambda: around.users(inventory.node))
        self._bench = SimulatedGpus(inventory, self._processes)
        self._mode = NodeKindMode.COUNTED if inventory.kind is GpuNodeKind.COUNTED else NodeKindMode.LEASED
        self._around = around
        self._silent = False
        self._turn = asyncio.Event()

    async def run(self) -> None:
        """Run one agent after another, as on a real node. The GPUs stay the same."""
        while True:
            self._turn.clear()
            agent = asyncio.ensure_future(self._silenced() if self._silent else self._agent(self._silent).run())
            turned = asyncio.ensure_future(self._turn.wait())
            try:
                await asyncio.wait((agent, turned), return_when=asyncio.FIRST_COMPLETED)
                if agent.done():
                    agent.result()
                    await turned
            finally:
                for task in (agent, turned):
                    task.cancel()
                await asyncio.gather(agent, turned, return_exceptions=True)

    def silence(self) -> None:
        """Stop the agent, as by a crash. Its last report becomes stale from now on."""
        self._silent = True
        self._turn.set()

    def resume(self) -> None:
        """Start a new agent."""
        self._silent = False
        self._turn.set()

    def set_health(self, gpu: int, health: DeviceHealth) -> None:
        """Break or repair a GPU.

        A new agent is started after a repair, because an agent never clears a fault it has recorded.
        """
        self._bench.becomes(gpu, health)
        if health is DeviceHealth.HEALTHY:
            self._turn.set()

    def pods_changed(self) -> None:
        """Make the agent read its GPUs if one is broken. A broken GPU is counted differently while a pod holds it."""
        if self._bench.ill:
            self._bench.nudge()

    def _agent(self, silent: bool) -> AgentLoop:
        around = self._around
        clock = around.clock if around.heartbeats or silent else _ForEver(around.clock)
        publisher = NodeStatusWriter(around.api, self.node, around.clock)
        reporters = AgentReporters(
            publisher,
            LeaseReleaser(around.api, around.lease_namespace),
            around.events,
            AgentMetrics(CollectorRegistry()),
        )
        sensors = AgentSensors(
            self._bench, GpuPoller(self._bench, self._processes, clock), Kubelet(None), self._pods, publisher.node
        )
        pace = around.pace if around.heartbeats else TICKLESS
        return AgentLoop(self.node, sensors, reporters, around.clock, mode=self._mode, pace=pace)

    async def _silenced(self) -> None:
        """Write one last dated report. With heartbeats the last report is dated already."""
        if self._around.heartbeats:
            return
        agent = self._agent(True)
        speaking = asyncio.ensure_future(agent.run())
        try:
            await asyncio.wait((speaking,), timeout=_LAST_WORDS_SECONDS)
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)


class _ForEver:
    """A clock whose `now` never changes, for reports that never become stale. Durations are those of the real clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> Instant:
        return FRESH_FOR_EVER

    def steady(self) -> Steady:
        return self._clock.steady()

    async def charge(self, cpu_seconds: float) -> None:
        await self._clock.charge(cpu_seconds)
