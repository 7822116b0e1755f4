"""An agent on every simulated node that has GPUs: started when they appear, stopped when the node goes."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ullage.act.tell import KubeEventWriter
from ullage.agent.start import CONTROLLER
from ullage.clock import Clock
from ullage.kube.api import KubeApi
from ullage.kube.provisioner_read import read_provisioner
from ullage.kube.read import read_node, read_pod
from ullage.kube.resources import NODE_PROVISIONERS, NODES, PODS
from ullage.model.device import Health
from ullage.model.event import Changed, Event, ObjectKey, Synced, Vanished
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.provisioner import PROVISIONER_LABEL, GpuTemplate, Provisioner
from ullage.model.resources import GPU
from ullage.observe.events import EventRecorder
from ullage.sim.agents.machine import Machine, Surroundings
from ullage.watch.informer import Informer, Interest, run_all


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """What may differ between simulations."""

    gpus: Mapping[str, GpuTemplate] = field(default_factory=dict)
    """Of nodes by name; those of a pool have what its NodeProvisioner says."""
    lease_namespace: str = "ullage-system"
    heartbeats: bool = False
    """Look every 2 s and report every 30 s, as real agents do. Without, a report is fresh until there is another."""
    seed: int = 0


class SimulatedAgents:
    """All of them. `run` until cancelled; misfortunes may be asked for at any time."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        settings: AgentSettings = AgentSettings(),  # noqa: B008 - frozen
    ) -> None:
        self._api = api
        self._clock = clock
        self._settings = settings
        self._rng = random.Random(settings.seed)
        self._pools: dict[str, GpuTemplate] = {}
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, dict[ObjectKey, Pod]] = {}
        self._machines: dict[str, Machine] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._around: Surroundings | None = None
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Until cancelled. A bug in one agent ends all."""
        writer = KubeEventWriter(self._api, controller=CONTROLLER, instance="agents")
        pools = self._informer(Interest(NODE_PROVISIONERS, read_provisioner), self._hear_pool)
        nodes = self._informer(Interest(NODES, read_node), self._hear_node)
        pods = self._informer(Interest(PODS, read_pod), self._hear_pod)
        async with EventRecorder(writer, self._clock, instance="agents") as events:
            self._around = Surroundings(
                api=self._api,
                clock=self._clock,
                events=events,
                lease_namespace=self._settings.lease_namespace,
                heartbeats=self._settings.heartbeats,
            )
            async with asyncio.TaskGroup() as self._group:
                self._group.create_task(run_all(pools, nodes, pods), name="informers of agents")

    def silence(self, node: str) -> None:
        """The agent of this node dies. Raises KeyError where there is none."""
        self._machines[node].silence()

    def resume(self, node: str) -> None:
        """It starts again. Raises KeyError where there never was one."""
        self._machines[node].resume()

    def set_health(self, node: str, gpu: int, health: Health) -> None:
        """A GPU breaks or is repaired. Raises KeyError where no agent speaks for the node."""
        self._machines[node].set_health(gpu, health)

    def _informer(self, interest: Interest[Any, Any], hear: Callable[[Event[Any]], None]) -> Informer[Any, Any]:
        return Informer(self._api, interest, hear, rng=self._rng, clock=self._clock)

    def _hear_pool(self, event: Event[Provisioner]) -> None:
        if isinstance(event, Synced | Vanished):
            return  # what a pool was, its nodes still are
        self._pools[event.key.name] = event.new.template.gpus
        for node in self._nodes.values():
            self._start_if_due(node)

    def _hear_node(self, event: Event[Node]) -> None:
        if isinstance(event, Synced):
            return
        if isinstance(event, Vanished):
            self._stop(event.key.name)
            return
        self._nodes[event.key.name] = event.new
        self._start_if_due(event.new)

    def _hear_pod(self, event: Event[Pod]) -> None:
        if isinstance(event, Synced):
            return
        if isinstance(event, Vanished | Changed) and event.old.node:
            self._pods_on(event.old.node).pop(event.key, None)
        now = "" if isinstance(event, Vanished) or event.new.phase.over else event.new.node
        if now and not isinstance(event, Vanished):
            self._pods_on(now)[event.key] = event.new
        before = "" if not isinstance(event, Vanished | Changed) else event.old.node
        for node in dict.fromkeys((before, now)):
            if node in self._machines:
                self._machines[node].pods_changed()

    def _pods_on(self, node: str) -> dict[ObjectKey, Pod]:
        return self._pods.setdefault(node, {})

    def _start_if_due(self, node: Node) -> None:
        gpus = self._settings.gpus.get(node.name) or self._pools.get(node.labels.get(PROVISIONER_LABEL, ""))
        if node.name in self._machines or gpus is None or self._around is None or self._group is None:
            return
        if node.ready and node.allocatable.get(GPU):
            machine = self._machines[node.name] = Machine(node.name, gpus, self._around, self._pods_on(node.name))
            self._running[node.name] = self._group.create_task(machine.run(), name=f"agent of {node.name}")

    def _stop(self, node: str) -> None:
        self._nodes.pop(node, None)
        self._pods.pop(node, None)
        if self._machines.pop(node, None) is not None:
            self._running.pop(node).cancel()
