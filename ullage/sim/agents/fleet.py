"""An agent on every simulated node that has GPUs: installed when they appear, removed when the node goes."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass

from ullage.act.tell import KubeEventWriter
from ullage.agent.start import CONTROLLER
from ullage.clock import Clock
from ullage.errors import ApiError
from ullage.kube.api import KubeApi
from ullage.kube.read import read_pod
from ullage.kube.resources import GPU_NODE_STATUSES, PODS
from ullage.model.device import Health, Inventory
from ullage.model.event import Event, ObjectKey, Synced, Vanished
from ullage.model.pod import Pod
from ullage.observe.events import EventRecorder
from ullage.sim.agents.machine import Machine, Surroundings
from ullage.watch.informer import Informer, Interest


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """What may differ between simulations."""

    lease_namespace: str = "ullage-system"
    heartbeats: bool = False
    """Look every 2 s and report every 30 s, as real agents do. Without, a report is fresh until there is another."""
    seed: int = 0


class SimulatedAgents:
    """All of them. `run` until cancelled; nodes and misfortunes may come at any time, also before."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        settings: AgentSettings = AgentSettings(),  # noqa: B008 - frozen
    ) -> None:
        self._api = api
        self._clock = clock
        self._settings = settings
        self._recorder = EventRecorder(
            KubeEventWriter(api, controller=CONTROLLER, instance="agents"), clock, instance="agents"
        )
        self._around = Surroundings(
            api=api,
            clock=clock,
            events=self._recorder,
            lease_namespace=settings.lease_namespace,
            heartbeats=settings.heartbeats,
        )
        self._pods: dict[str, dict[ObjectKey, Pod]] = {}
        """By node."""
        self._homes: dict[ObjectKey, str] = {}
        self._machines: dict[str, Machine] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Until cancelled. A bug in one agent ends all."""
        rng = random.Random(self._settings.seed)
        pods = Informer(self._api, Interest(PODS, read_pod), self._hear, rng=rng, clock=self._clock)
        async with self._recorder, asyncio.TaskGroup() as self._group:
            self._group.create_task(pods.run(), name="pods of agents")
            for node in self._machines:
                self._start(node)

    def install(self, inventory: Inventory) -> None:
        """An agent begins to speak for a node, whose GPUs are these."""
        node = inventory.node
        self._machines[node] = Machine(inventory, self._around, self._pods.setdefault(node, {}))
        self._start(node)

    def remove(self, node: str) -> None:
        """The node is gone, its agent with it, and what that said."""
        self._pods.pop(node, None)
        if self._machines.pop(node, None) is None:
            return
        if (running := self._running.pop(node, None)) is not None and self._group is not None:
            running.cancel()
            self._group.create_task(self._forget(node), name=f"report of {node}")

    def silence(self, node: str) -> None:
        """The agent of this node dies. Raises KeyError where there is none."""
        self._machines[node].silence()

    def resume(self, node: str) -> None:
        """It starts again. Raises KeyError where there never was one."""
        self._machines[node].resume()

    def set_health(self, node: str, gpu: int, health: Health) -> None:
        """A GPU breaks or is repaired. Raises KeyError where no agent speaks for the node."""
        self._machines[node].set_health(gpu, health)

    def _start(self, node: str) -> None:
        if self._group is not None:
            self._running[node] = self._group.create_task(self._machines[node].run(), name=f"agent of {node}")

    async def _forget(self, node: str) -> None:
        """The collector of orphans does that, too, where there is one."""
        with suppress(ApiError):
            await self._api.delete(GPU_NODE_STATUSES, node)

    def _hear(self, event: Event[Pod]) -> None:
        if isinstance(event, Synced):
            return
        new = None if isinstance(event, Vanished) else event.new
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
