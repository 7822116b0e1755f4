"""AgentLoop: one loop polls the GPUs, another writes to the API. Polling never waits for writing."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from ullage.act.lease_release import LeaseReleaser
from ullage.agent.conditions import conditions_of, word_of
from ullage.agent.gauges import show
from ullage.agent.gpu_reader import GpuReader
from ullage.agent.kubelet import Kubelet
from ullage.agent.poller import GpuPoller, PollResult
from ullage.agent.status_writer import NodeStatusWriter
from ullage.agent.unleased_processes import UnleasedProcessTracker
from ullage.clock import Clock, Instant
from ullage.decide.inventory.health import is_fault
from ullage.decide.inventory.known_gpus import KnownGpu, KnownGpus, newly_unwell, remembered, unwell
from ullage.decide.inventory.node_kind import KindChoice, NodeEvidence, NodeKindMode, choose_kind, gpu_pods
from ullage.decide.inventory.usage import GpuTenancy, UnleasedProcess, rights_of, tenancies, unleased
from ullage.errors import ApiError, NotFound
from ullage.kube.objects.node import KubeNode
from ullage.model.allocation import lease_name
from ullage.model.device import DeviceHealth, GpuNodeKind, Inventory
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.units import Steady
from ullage.observe.agent_metrics import AgentMetrics, ReportOutcome
from ullage.observe.events import EventMessage, EventReason, EventRecorder, ObjectReference
from ullage.runtime import Wakeup, pause
from ullage.state.device_columns import KIND_LABEL

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class AgentTiming:
    """Intervals of polls and reports, in seconds."""

    look: float = 2.0
    report: float = 30.0
    """Also the interval at which models, links and MIG instances are read."""
    retry: float = 2.0
    """First pause after an API failure; doubled with each further one."""
    longest_retry: float = 8.0
    breath: float = 0.2
    """Shortest time between two polls: a storm of Xids must not become a storm of polls."""
    spacing: float = 1.0
    """Shortest time between two reports."""


@dataclass(frozen=True, slots=True)
class AgentSensors:
    """Inputs of the agent: GPU reader, poller, kubelet, and the pods and Node as last observed."""

    reader: GpuReader
    poller: GpuPoller
    kubelet: Kubelet
    pods: Mapping[ObjectKey, Pod]
    """Pods on this node, as last observed."""
    node: Callable[[], Awaitable[KubeNode | None]]
    """The Node as last observed; None if there is none."""
    has_dra: Callable[[], bool] = lambda: False
    """True if a DRA driver publishes GPUs of this node."""


@dataclass(frozen=True, slots=True)
class AgentReporters:
    """Outputs of the agent: GpuNodeStatus and Node, Leases, Events and metrics."""

    publisher: NodeStatusWriter
    leases: LeaseReleaser
    events: EventRecorder
    metrics: AgentMetrics


class AgentLoop:
    """The agent of one node. `run` until cancelled."""

    def __init__(
        self,
        node: str,
        sensors: AgentSensors,
        reporters: AgentReporters,
        clock: Clock,
        *,
        mode: NodeKindMode = NodeKindMode.AUTO,
        pace: AgentTiming = AgentTiming(),  # noqa: B008 - frozen
    ) -> None:
        self._node = node
        self._sensors = sensors
        self._reporters = reporters
        self._clock = clock
        self._mode = mode
        self._pace = pace
        self._about_node = ObjectReference("Node", ObjectKey("", node))
        self._choice = KindChoice()
        self._complaint = ""
        self.homeless = False
        """The cluster has no Node of this name: there is nothing to report on."""
        self._findings: PollResult | None = None
        self._unleased = UnleasedProcessTracker()
        self._rights: Mapping[int, tuple[str, ...]] = {}
        """Uids of the pods that hold each GPU, by GPU id, as of the last poll."""
        self._tenancies: dict[int, GpuTenancy] = {}
        self._retry = pace.retry / 2
        self._poll_now = Wakeup()
        self._report_now = Wakeup()
        self.looked_at: Instant | None = None
        self.reported_at: Instant | None = None

    async def run(self, boot_id: str = "") -> None:
        """Poll and report until cancelled."""
        await self._begin_when_possible(boot_id)
        self._sensors.reader.listen(self._on_xid)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_polling(), name="polls")
            group.create_task(self._keep_reporting(boot_id), name="reports")

    async def _begin_when_possible(self, boot_id: str) -> None:
        while True:
            try:
                return await self._begin(boot_id)
            except ApiError as error:
                self._complain("cannot begin", str(error))
                await pause(self._pace.retry)

    async def _begin(self, boot_id: str) -> None:
        """Go on from the last report of an earlier agent: GPUs keep their ids."""
        node = await self._reporters.publisher.node()
        self._about_node = ObjectReference("Node", ObjectKey("", self._node), node.metadata.uid)
        report, reported_boot = await self._reporters.publisher.last_report()
        if report is not None:
            self._sensors.poller.known_gpus = remembered(report, same_boot=not boot_id or boot_id == reported_boot)
        await self._reporters.publisher.introduce(boot_id)
        await self._choose_kind(node)

    async def _choose_kind(self, node: KubeNode) -> None:
        before = self._choice
        self._choice = choose_kind(self._mode, before, await self._evidence(node), now=self._clock.steady())
        if (self._choice.kind, self._choice.next) == (before.kind, before.next):
            return
        self._report_now.set()
        if self._mode is NodeKindMode.AUTO:  # else the operator has set the kind
            kind, following = word_of(self._choice.kind), word_of(self._choice.next)
            log.info("node kind", kind=kind, next=following, why=self._choice.why)

    async def _evidence(self, node: KubeNode) -> NodeEvidence:
        if self._mode is not NodeKindMode.AUTO:
            return NodeEvidence()
        leased, others = gpu_pods(self._sensors.pods.values(), self._sensors.kubelet.served())
        return NodeEvidence(
            plugin=await self._sensors.kubelet.has_plugin(),
            dra=self._sensors.has_dra(),
            label=node.metadata.labels.get(KIND_LABEL, ""),
            advertised=str(node.status.capacity.get(GPU, "0")) not in ("", "0"),
            leased_pods=leased,
            other_pods=others,
        )

    @property
    def _kind(self) -> GpuNodeKind:
        """Kind of the node. COUNTED while it is not settled: a device plugin may be choosing."""
        return self._choice.kind or GpuNodeKind.COUNTED

    def node_changed(self) -> None:
        """The Node's own fields of ours were changed by others, or it is another Node."""
        self._report_now.set()

    def _complain(self, event: str, text: str) -> None:
        """Log the problem once, until it is over or another one takes its place."""
        if text != self._complaint:
            log.warning(event, error=text)
        self._complaint = text

    def _on_xid(self, uuid: str, xid: int) -> None:
        """Remember an Xid and poll at once."""
        gpu = next((str(d.id) for d in self._sensors.poller.known_gpus.devices if d.uuid == uuid), uuid)
        self._reporters.metrics.xid(gpu, xid)
        self._sensors.poller.record_xid(uuid, xid)
        log.warning("xid", gpu=gpu, xid=xid, fault=is_fault(xid))
        self._poll_now.set()

    async def _keep_polling(self) -> None:
        thorough_at = self._clock.steady()
        while True:
            self._poll_now.clear()
            thorough = self._clock.steady() >= thorough_at
            if thorough:
                thorough_at = Steady(self._clock.steady() + self._pace.report)
            await self._look(thorough)
            await pause(self._pace.breath)
            await self._poll_now.wait(self._pace.look - self._pace.breath)

    async def _look(self, thorough: bool) -> None:
        began, before = self._clock.steady(), self._sensors.poller.known_gpus
        counted = self._kind is GpuNodeKind.COUNTED
        given = await self._sensors.kubelet.given(before, self._sensors.pods) if counted else {}
        findings = await self._sensors.poller.look(thorough=thorough, given=given)
        self._reporters.metrics.look_seconds.observe(self._clock.steady() - began)
        self._take_in(findings, given if counted else rights_of(self._sensors.pods.values()))
        self._report_unwell(before, findings.known_gpus)

    def _take_in(self, findings: PollResult, rights: Mapping[int, tuple[str, ...]]) -> None:
        """Compare with the previous poll, and wake the report loop if the API has to be updated."""
        self._unleased.note(unleased(findings.occupants, rights))
        busy = {device.id: _utilisation(findings, device.uuid) for device in findings.known_gpus.devices}
        self._tenancies = tenancies(self._tenancies, rights, busy, now=findings.at)
        before, held = self._findings, self._rights
        self._findings, self._rights, self.looked_at = findings, rights, findings.at
        ill = {device.id for device in findings.known_gpus.devices if device.health is not DeviceHealth.HEALTHY}
        # An unhealthy GPU is still counted while it is held.
        if (
            before is None
            or _differs(before, findings)
            or self._unleased.suspects
            or ill & (held.keys() ^ rights.keys())
        ):
            self._report_now.set()
        show(self._reporters.metrics, findings, self._tenancies, self._unleased.at_large)

    def _report_unwell(self, before: KnownGpus, after: KnownGpus) -> None:
        for item in newly_unwell(before, after):
            gpu = item.device
            note = f"GPU {gpu.id} ({gpu.uuid}) of {self._node} is {gpu.health.value}: {item.why}"
            log.warning("gpu unwell", gpu=gpu.id, uuid=gpu.uuid, health=gpu.health.value, why=item.why)
            for about in self._pods_on(item) or (self._about_node,):
                self._reporters.events.record(EventMessage(about, EventReason.GPU_UNHEALTHY, note, self._about_node))

    def _pods_on(self, item: KnownGpu) -> tuple[ObjectReference, ...]:
        uids = dict.fromkeys((*self._rights.get(item.device.id, ()), *item.device.in_use_by))
        return tuple(about for uid in uids if (about := self._pod(uid)) is not None)

    def _pod(self, uid: str) -> ObjectReference | None:
        key = next((pod.key for pod in self._sensors.pods.values() if pod.uid == uid), None)
        return None if key is None else ObjectReference("Pod", key, uid)

    async def _keep_reporting(self, boot_id: str) -> None:
        wait = 0.0
        while True:
            if not await self._report_now.wait(wait):
                self._unleased.doubt_excuses()
            self._report_now.clear()
            wait = await self._report(boot_id)
            await pause(self._pace.spacing)

    async def _report(self, boot_id: str) -> float:
        """Write the latest poll result. Returns the seconds for which it holds."""
        findings = self._findings
        if findings is None:
            return self._pace.report
        try:
            node = await self._home(boot_id)
            if node is None:
                return self._pace.report
            await self._choose_kind(node)
            await self._write(node, findings)
        except ApiError as error:
            self._reporters.metrics.reported(ReportOutcome.FAILED)
            self._complain("report failed", str(error))
            if isinstance(error, NotFound):
                await self._introduce_again(boot_id)
            self._retry = min(2 * self._retry, self._pace.longest_retry)
            return self._retry
        self._retry, self._complaint = self._pace.retry / 2, ""
        return self._pace.report

    async def _write(self, node: KubeNode, findings: PollResult) -> None:
        inventory = Inventory(
            node=self._node, reported_at=findings.at, devices=findings.known_gpus.devices, kind=self._kind
        )
        await self._reporters.publisher.report(inventory, conditions_of(findings, self._choice))
        self._reporters.metrics.reported(ReportOutcome.WRITTEN)
        self.reported_at = findings.at
        if self._choice.kind is not None:
            await self._reporters.publisher.mark(node, inventory, self._rights)
        await self._ask_about_unleased()

    async def _home(self, boot_id: str) -> KubeNode | None:
        """The Node as it is now. A missing Node is logged once, and nothing is written until there is one."""
        node = await self._sensors.node()
        self.homeless = node is None
        if node is None:
            self._complain("node gone", f"the cluster has no node {self._node}; nothing is reported until it is back")
        elif node.metadata.uid != self._about_node.uid:
            await self._reporters.publisher.introduce(boot_id)
            self._about_node = ObjectReference("Node", ObjectKey("", self._node), node.metadata.uid)
        return node

    async def _introduce_again(self, boot_id: str) -> None:
        """Write the GpuNodeStatus again: it or the Node was deleted."""
        try:
            await self._reporters.publisher.introduce(boot_id)
        except ApiError as error:
            self._complain("introduction failed", str(error))

    async def _ask_about_unleased(self) -> None:
        """Read the Leases of suspects. If a pod that is gone still holds the Lease, the GPU is in quarantine."""
        for process in self._unleased.suspects:
            lease = await self._reporters.leases.lease(lease_name(self._node, process.device)) if process.pod else None
            if lease is not None and any(hold.uid == process.pod for hold in lease.holds):
                self._unleased.excuse(process)
                continue
            self._report_unleased(process)
            self._unleased.reported(process)

    def _report_unleased(self, process: UnleasedProcess) -> None:
        who = f"of pod {process.pod}" if process.pod else "of the host"
        note = f"process {process.pid} {who} uses GPU {process.device} of {self._node}, which was not given to it"
        log.warning("stray process", gpu=process.device, pid=process.pid, pod=process.pod)
        about = self._pod(process.pod) or self._about_node
        self._reporters.events.record(EventMessage(about, EventReason.GPU_USED_WITHOUT_LEASE, note, self._about_node))


def _utilisation(findings: PollResult, uuid: str) -> int | None:
    sight = findings.sight(uuid)
    return None if sight is None or sight.vitals is None else sight.vitals.utilisation


def _differs(one: PollResult, other: PollResult) -> bool:
    return (one.known_gpus.devices, one.look.trouble, unwell(one.known_gpus)) != (
        other.known_gpus.devices,
        other.look.trouble,
        unwell(other.known_gpus),
    )
