"""Agents of all simulated nodes with GPUs: started when the GPUs appear, removed when the node is deleted."""

import asyncio
import random
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from ullage.act.events import KubeEventWriter
from ullage.agent.loop import AgentTiming
from ullage.agent.wiring import CONTROLLER
from ullage.clock import Clock
from ullage.errors import ApiError
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import GPU_NODE_STATUSES, PODS
from ullage.kube.read import read_pod
from ullage.model.device import DeviceHealth, Inventory
from ullage.model.fact_event import Deleted, FactEvent, ObjectKey, Synced
from ullage.model.lease import LEASE_NAMESPACE
from ullage.model.pod import Pod
from ullage.observe.events import EventRecorder
from ullage.sim.agents.machine import REAL_PACE, MachineContext, SimulatedMachine
from ullage.sim.world.agents import GpuUsers, no_users
from ullage.watch.informer import Informer, InformerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedAgentSettings:
    """Settings of the simulated agents: Lease namespace, heartbeats and seed."""

    lease_namespace: str = LEASE_NAMESPACE
    heartbeats: bool = False
    """Read GPUs every 2 s and report every 30 s, as real agents do. Otherwise a report is fresh until the next one."""
    seed: int = 0
    pace: AgentTiming = REAL_PACE
    """Intervals of agents with heartbeats."""
    users: GpuUsers = no_users
    """Pods whose containers use the GPUs of a node."""


class SimulatedAgents:
    """Agents of all simulated nodes.

    `run` until cancelled; nodes and hardware faults may be added before or during it.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        settings: SimulatedAgentSettings = SimulatedAgentSettings(),  # noqa: B008 - frozen
    ) -> None:
        self._api = api
        self._clock = clock
        self._settings = settings
        self._recorder = EventRecorder(
            KubeEventWriter(api, controller=CONTROLLER, instance="agents"), clock, instance="agents"
        )
        self._around = MachineContext(
            api=api,
            clock=clock,
            events=self._recorder,
            lease_namespace=settings.lease_namespace,
            heartbeats=settings.heartbeats,
            pace=settings.pace,
            users=settings.users,
        )
        self._pods: dict[str, dict[ObjectKey, Pod]] = {}
        """Pods by node."""
        self._homes: dict[ObjectKey, str] = {}
        self._machines: dict[str, SimulatedMachine] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run all agents until cancelled. An unexpected error in one agent ends all."""
        rng = random.Random(self._settings.seed)
        pods = Informer(self._api, InformerSpec(PODS, read_pod), self._observe, rng=rng, clock=self._clock)
        async with self._recorder, asyncio.TaskGroup() as self._group:
            self._group.create_task(pods.run(), name="pods of agents")
            for node in self._machines:
                self._start(node)

    def install(self, inventory: Inventory) -> None:
        """Start an agent for a node with these GPUs."""
        node = inventory.node
        self._machines[node] = SimulatedMachine(inventory, self._around, self._pods.setdefault(node, {}))
        self._start(node)

    def remove(self, node: str) -> None:
        """Remove the agent of a deleted node and its GpuNodeStatus."""
        self._pods.pop(node, None)
        if self._machines.pop(node, None) is None:
            return
        if (running := self._running.pop(node, None)) is not None and self._group is not None:
            running.cancel()
            self._group.create_task(self._forget(node), name=f"report of {node}")

    def nodes(self) -> Collection[str]:
        """Nodes that have an agent."""
        return self._machines

    def silence(self, node: str) -> None:
        """Stop the agent of this node, as by a crash. Raises KeyError if the node has none."""
        self._machines[node].silence()

    def resume(self, node: str) -> None:
        """Start the agent of this node again. Raises KeyError if the node never had one."""
        self._machines[node].resume()

    def set_health(self, node: str, gpu: int, health: DeviceHealth) -> None:
        """Break or repair a GPU. Raises KeyError if the node has no agent."""
        self._machines[node].set_health(gpu, health)

    def _start(self, node: str) -> None:
        if self._group is not None:
            self._running[node] = self._group.create_task(self._machines[node].run(), name=f"agent of {node}")

    async def _forget(self, node: str) -> None:
        """Delete the node's GpuNodeStatus. The simulated garbage collector does so too, if it runs."""
        with suppress(ApiError):
            await self._api.delete(GPU_NODE_STATUSES, node)

    def _observe(self, event: FactEvent[Pod]) -> None:
        if isinstance(event, Synced):
            return
        new = None if isinstance(event, Deleted) else event.new
        home = "" if new is None or new.phase.over else new.node
        left = self._homes.pop(event.key, "")
        if left:
            self._pods.get(left, {}).pop(event.key, None)
        if home and new is not None:
            self._homes[event.key] = home
            self._pods.setdefault(home, {})[event.key] = new
        for node in dict.fromkeys((left, home)):
            if node in self._machines:
                self._machines[node].pods_changed()
