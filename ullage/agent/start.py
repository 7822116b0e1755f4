"""Puts an agent together: the reader, what is heard of this node's pods, and the voice, over one API."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog
from prometheus_client import CollectorRegistry

from ullage.act.sweep import Broom
from ullage.act.tell import KubeEventWriter
from ullage.agent.kubelet import Kubelet
from ullage.agent.loop import Agent, AgentPace, Eyes, Voice
from ullage.agent.podresources import PodResources
from ullage.agent.processes import ProcFolder
from ullage.agent.publishing import Publisher
from ullage.agent.reader import GpuReader
from ullage.agent.rounds import Rounds
from ullage.clock import Clock
from ullage.decide.inventory.kind import Mode
from ullage.errors import NotFound, UserError
from ullage.kube.api import KubeApi, Selection
from ullage.kube.objects.pod import Pod as KubePod
from ullage.kube.read import read_pod
from ullage.kube.resources import NODES, PODS
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.observe.agent_metrics import AgentMetrics
from ullage.observe.events import EventRecorder
from ullage.observe.serve import Checks
from ullage.watch.informer import Informer, Interest, run_all, wait_all_synced

CONTROLLER = "ullage.dev/agent"
log = structlog.get_logger()
LONGEST_BETWEEN_LOOKS = 30.0
LONGEST_BETWEEN_REPORTS = 90.0
"""Seconds. After that nobody believes the report any more."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What an operator chooses."""

    node: str
    mode: Mode = Mode.AUTO
    lease_namespace: str = "ullage-system"
    pace: AgentPace = field(default_factory=AgentPace)


@dataclass(frozen=True, slots=True)
class Host:
    """The machine the agent is on."""

    reader: GpuReader
    proc: ProcFolder
    resources: PodResources | None = None
    """kubelet's word on device plugins; None where there is no kubelet."""


class NodeAgent:
    """The agent of one node, with all its parts. `run` until cancelled."""

    def __init__(
        self, api: KubeApi, host: Host, settings: AgentSettings, clock: Clock, *, instance: str, seed: int
    ) -> None:
        self._api = api
        self._host = host
        self._settings = settings
        self._clock = clock
        self._instance = instance
        self._rng = random.Random(seed)
        self._agent: Agent | None = None
        self.metrics = AgentMetrics(CollectorRegistry())

    async def run(self) -> None:
        """Until cancelled. Raises UserError where there is no such node."""
        await self._check_node()
        pods = self._pods()
        writer = KubeEventWriter(self._api, controller=CONTROLLER, instance=self._instance)
        async with EventRecorder(writer, self._clock, instance=self._instance) as events, asyncio.TaskGroup() as group:
            group.create_task(run_all(pods), name="pods of this node")
            await wait_all_synced(pods)
            self._agent = self._made(events, pods.facts)
            group.create_task(self._agent.run(self._host.proc.boot_id()), name="agent")

    @property
    def checks(self) -> Checks:
        """Alive while it looks, ready while the cluster believes its report."""
        return Checks(alive={"looks": self._looks}, ready={"reports": self._reports})

    async def _check_node(self) -> None:
        name = self._settings.node
        try:
            await self._api.get(NODES, name)
        except NotFound:
            raise UserError(f"the cluster has no node {name}; say which one this is with --node-name") from None

    def _pods(self) -> Informer[KubePod, Pod]:
        """Pods on this node."""
        return Informer(
            self._api,
            Interest(PODS, read_pod, selection=Selection(fields=f"spec.nodeName={self._settings.node}")),
            lambda _: None,
            rng=self._rng,
            clock=self._clock,
            on_trouble=lambda error: log.warning("pods of this node cannot be heard of", error=str(error)),
        )

    def _made(self, events: EventRecorder, pods: Mapping[ObjectKey, Pod]) -> Agent:
        settings, host, clock = self._settings, self._host, self._clock
        eyes = Eyes(host.reader, Rounds(host.reader, host.proc, clock), Kubelet(host.resources), pods)
        voice = Voice(
            Publisher(self._api, settings.node, clock),
            Broom(self._api, settings.lease_namespace),
            events,
            self.metrics,
        )
        return Agent(settings.node, eyes, voice, clock, mode=settings.mode, pace=settings.pace)

    def _looks(self) -> str:
        at = None if self._agent is None else self._agent.looked_at
        if at is None or self._clock.now() - at <= LONGEST_BETWEEN_LOOKS:
            return ""
        return f"the last look was {self._clock.now() - at:.0f} s ago"

    def _reports(self) -> str:
        at = None if self._agent is None else self._agent.reported_at
        if at is None:
            return "nothing has been reported yet"
        age = self._clock.now() - at
        return "" if age <= LONGEST_BETWEEN_REPORTS else f"the last report is {age:.0f} s old"
