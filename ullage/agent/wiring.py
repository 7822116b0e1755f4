"""NodeAgent: the GPU reader, informers of this node's objects and the writers, put together over one API."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import structlog
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from ullage.act.events import KubeEventWriter
from ullage.act.lease_release import LeaseReleaser
from ullage.agent.gpu_reader import GpuReader
from ullage.agent.kubelet import Kubelet
from ullage.agent.loop import AgentLoop, AgentReporters, AgentSensors, AgentTiming
from ullage.agent.podresources import PodResources
from ullage.agent.poller import GpuPoller
from ullage.agent.processes import ProcFs
from ullage.agent.status_writer import NodeStatusWriter
from ullage.clock import Clock
from ullage.decide.inventory.node_kind import NodeKindMode
from ullage.errors import NotFound, UserError
from ullage.kube.client.api import KubeApi, ListSelector
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import NODES, PODS, RESOURCE_SLICES
from ullage.kube.objects.dra import KubeResourceSlice
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.node import KubeNode, NodeStatus
from ullage.kube.objects.pod import KubePod
from ullage.kube.read import read_device_slice, read_pod
from ullage.model.dra import ResourceSlice
from ullage.model.fact_event import FactEvent, ObjectKey
from ullage.model.lease import LEASE_NAMESPACE
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.observe.agent_metrics import AgentMetrics
from ullage.observe.events import EventRecorder
from ullage.observe.probes import HealthChecks
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced

T = TypeVar("T")
F = TypeVar("F")

CONTROLLER = "ullage.dev/agent"
log = structlog.get_logger()
LONGEST_BETWEEN_LOOKS = 30.0
LONGEST_BETWEEN_REPORTS = 90.0
"""Seconds. Readers of the report treat an older one as stale."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings of an agent that the operator chooses."""

    node: str
    mode: NodeKindMode = NodeKindMode.AUTO
    lease_namespace: str = LEASE_NAMESPACE
    pace: AgentTiming = field(default_factory=AgentTiming)


@dataclass(frozen=True, slots=True)
class AgentHost:
    """The machine the agent runs on."""

    reader: GpuReader
    proc: ProcFs
    resources: PodResources | None = None
    """kubelet's PodResources API; None where there is no kubelet."""


@dataclass(frozen=True, slots=True)
class _XidRelay:
    """Objects of this node as its informers deliver them. Views that stay current."""

    pods: Mapping[ObjectKey, Pod]
    nodes: Mapping[ObjectKey, KubeNode]
    slices: Sequence[Mapping[ObjectKey, ResourceSlice]]

    async def node(self) -> KubeNode | None:
        return next(iter(self.nodes.values()), None)

    def has_dra(self) -> bool:
        return any(one.gpus for slices in self.slices for one in slices.values())


class NodeAgent:
    """The agent of one node, with all its parts. `run` until cancelled."""

    def __init__(
        self, api: KubeApi, host: AgentHost, settings: AgentSettings, clock: Clock, *, instance: str, seed: int
    ) -> None:
        self._api = api
        self._host = host
        self._settings = settings
        self._clock = clock
        self._instance = instance
        self._rng = random.Random(seed)
        self._agent: AgentLoop | None = None
        self.metrics = AgentMetrics(CollectorRegistry())

    async def run(self) -> None:
        """Run until cancelled. Raises UserError where there is no such Node."""
        await self._check_node()
        pods, nodes, slices = self._pods(), self._nodes(), await self._slices()
        writer = KubeEventWriter(self._api, controller=CONTROLLER, instance=self._instance)
        async with EventRecorder(writer, self._clock, instance=self._instance) as events, asyncio.TaskGroup() as group:
            group.create_task(run_all(pods, nodes, *slices), name="this node and its pods")
            await wait_all_synced(pods, nodes)
            self._agent = self._made(events, _XidRelay(pods.facts, nodes.facts, [one.facts for one in slices]))
            group.create_task(self._agent.run(self._host.proc.boot_id()), name="agent")

    @property
    def checks(self) -> HealthChecks:
        """Alive while the agent polls, ready while its report is recent enough."""
        return HealthChecks(alive={"looks": self._looks}, ready={"reports": self._reports})

    async def _check_node(self) -> None:
        name = self._settings.node
        try:
            await self._api.get(NODES, name)
        except NotFound:
            raise UserError(f"the cluster has no node {name}; say which one this is with --node-name") from None

    def _pods(self) -> Informer[KubePod, Pod]:
        """Pods on this node."""
        return self._informer(PODS, read_pod, f"spec.nodeName={self._settings.node}")

    def _nodes(self) -> Informer[KubeNode, KubeNode]:
        """The Node itself. Fields that are right already need no request."""
        return self._informer(NODES, _ours_of, f"metadata.name={self._settings.node}", self._node_changed)

    async def _slices(self) -> list[Informer[KubeResourceSlice, ResourceSlice]]:
        """Informers of the ResourceSlices of this node, if they decide its kind and the API server serves them."""
        if self._settings.mode is not NodeKindMode.AUTO:
            return []
        served = await self._api.discover()
        found = next((slices for slices in RESOURCE_SLICES if slices in served), None)
        mine = f"spec.nodeName={self._settings.node}"
        return [] if found is None else [self._informer(found, read_device_slice, mine)]

    def _informer(
        self,
        resource: Resource[T],
        read: Callable[[T], F],
        fields: str,
        deliver: Callable[[FactEvent[F]], None] = lambda _: None,
    ) -> Informer[T, F]:
        """Informer that lists from the API server's watch cache: there is an agent on every node."""
        return Informer(
            self._api,
            InformerSpec(resource, read, selection=ListSelector(fields=fields), at_hand=True),
            deliver,
            rng=self._rng,
            clock=self._clock,
        )

    def _node_changed(self, _: FactEvent[KubeNode]) -> None:
        if self._agent is not None:
            self._agent.node_changed()

    def _made(self, events: EventRecorder, relay: "_XidRelay") -> AgentLoop:
        settings, host, clock = self._settings, self._host, self._clock
        sensors = AgentSensors(
            host.reader,
            GpuPoller(host.reader, host.proc, clock),
            Kubelet(host.resources),
            relay.pods,
            relay.node,
            relay.has_dra,
        )
        reporters = AgentReporters(
            NodeStatusWriter(self._api, settings.node, clock),
            LeaseReleaser(self._api, settings.lease_namespace),
            events,
            self.metrics,
        )
        return AgentLoop(settings.node, sensors, reporters, clock, mode=settings.mode, pace=settings.pace)

    def _looks(self) -> str:
        at = None if self._agent is None else self._agent.looked_at
        if at is None or self._clock.now() - at <= LONGEST_BETWEEN_LOOKS:
            return ""
        return f"the last look was {self._clock.now() - at:.0f} s ago"

    def _reports(self) -> str:
        at = None if self._agent is None else self._agent.reported_at
        if self._agent is not None and self._agent.homeless:
            return f"the cluster has no node {self._settings.node}"
        if at is None:
            return "nothing has been reported yet"
        age = self._clock.now() - at
        return "" if age <= LONGEST_BETWEEN_REPORTS else f"the last report is {age:.0f} s old"


def _ours_of(node: KubeNode) -> KubeNode:
    """The Node with only the fields an agent reads, without those that kubelet writes every few minutes."""
    meta = node.metadata
    capacity, allocatable = (
        {name: amount for name, amount in amounts.items() if name == GPU}
        for amounts in (node.status.capacity, node.status.allocatable)
    )
    kept = ObjectMeta(name=meta.name, uid=meta.uid, labels=meta.labels)
    return replace(node, metadata=kept, status=NodeStatus(capacity=capacity, allocatable=allocatable))
