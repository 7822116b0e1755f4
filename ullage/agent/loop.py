"""The agent's two loops: one looks at the GPUs, the other tells the cluster. The first never waits for the second."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from ullage.act.sweep import Broom
from ullage.agent.gauges import show
from ullage.agent.kubelet import Kubelet
from ullage.agent.publishing import Publisher
from ullage.agent.reader import GpuReader
from ullage.agent.rounds import Findings, Rounds
from ullage.agent.strays import StrayWatch
from ullage.clock import Clock, Instant
from ullage.decide.inventory.health import is_fault
from ullage.decide.inventory.kind import Mode, kind_of
from ullage.decide.inventory.stock import Item, Stock, newly_unwell, remembered, unwell
from ullage.decide.inventory.usage import Stray, Tenancy, rights_of, strays, tenancies
from ullage.errors import ApiError, NotFound
from ullage.kube.gpu_write import READY, Aspect
from ullage.model.allocation import lease_name
from ullage.model.device import GpuNodeKind, Health, Inventory
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.observe.agent_metrics import AgentMetrics, ReportOutcome
from ullage.observe.events import Announcement, EventReason, EventRecorder, Subject
from ullage.state.gpus import KIND_LABEL

ALL_HEALTHY = "AllHealthy"
"""A node status' condition: no GPU has to be kept from pods."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class AgentPace:
    """How often. Seconds."""

    look: float = 2.0
    report: float = 30.0
    """Models, links and instances are looked at as often."""
    retry: float = 2.0
    """After the API failed; twice as long each time it fails again."""
    longest_retry: float = 8.0
    breath: float = 0.2
    """At least, between two looks: a storm of Xids is not a storm of looks."""
    spacing: float = 1.0
    """At least, between two reports."""


@dataclass(frozen=True, slots=True)
class Eyes:
    """What the agent sees the node with."""

    reader: GpuReader
    rounds: Rounds
    kubelet: Kubelet
    pods: Mapping[ObjectKey, Pod]
    """Those on this node, as last heard."""


@dataclass(frozen=True, slots=True)
class Voice:
    """What it tells the cluster with."""

    publisher: Publisher
    leases: Broom
    events: EventRecorder
    metrics: AgentMetrics


class Agent:
    """The agent of one node. `run` until cancelled."""

    def __init__(
        self,
        node: str,
        eyes: Eyes,
        voice: Voice,
        clock: Clock,
        *,
        mode: Mode = Mode.AUTO,
        pace: AgentPace = AgentPace(),  # noqa: B008 - frozen
    ) -> None:
        self._node = node
        self._eyes = eyes
        self._voice = voice
        self._clock = clock
        self._mode = mode
        self._pace = pace
        self._about_node = Subject("Node", ObjectKey("", node))
        self._kind = GpuNodeKind.LEASED
        self._findings: Findings | None = None
        self._strays = StrayWatch()
        self._rights: Mapping[int, tuple[str, ...]] = {}
        """By GPU id: uids of the pods that hold it, as of the last look."""
        self._tenancies: dict[int, Tenancy] = {}
        self._retry = pace.retry / 2
        self._look_now = asyncio.Event()
        self._news = asyncio.Event()
        self.looked_at: Instant | None = None
        self.reported_at: Instant | None = None

    async def run(self, boot_id: str = "") -> None:
        """Look and tell until cancelled."""
        await self._begin_when_possible(boot_id)
        self._eyes.reader.listen(self._heard)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_looking(), name="looks")
            group.create_task(self._keep_telling(boot_id), name="reports")

    async def _begin_when_possible(self, boot_id: str) -> None:
        while True:
            try:
                return await self._begin(boot_id)
            except ApiError as error:
                log.warning("cannot begin", error=str(error))
                await asyncio.sleep(self._pace.retry)

    async def _begin(self, boot_id: str) -> None:
        """Go on where the agent before left off: GPUs keep their ids."""
        node = await self._voice.publisher.node()
        self._about_node = Subject("Node", ObjectKey("", self._node), node.metadata.uid)
        report, reported_boot = await self._voice.publisher.last_report()
        if report is not None:
            self._eyes.rounds.stock = remembered(report, same_boot=not boot_id or boot_id == reported_boot)
        await self._voice.publisher.introduce(boot_id)
        await self._choose_kind()

    async def _choose_kind(self) -> None:
        node, before = await self._voice.publisher.node(), self._kind
        self._kind = kind_of(
            self._mode,
            plugin=await self._eyes.kubelet.has_plugin() if self._mode is Mode.AUTO else None,
            label=node.metadata.labels.get(KIND_LABEL, ""),
            advertised=str(node.status.capacity.get(GPU, "0")) not in ("", "0"),
        )
        if self._kind is not before:
            self._news.set()

    def _heard(self, uuid: str, xid: int) -> None:
        """An Xid: remember it, and look at once."""
        gpu = next((str(d.id) for d in self._eyes.rounds.stock.devices if d.uuid == uuid), uuid)
        self._voice.metrics.xid(gpu, xid)
        self._eyes.rounds.heard(uuid, xid)
        log.warning("xid", gpu=gpu, xid=xid, fault=is_fault(xid))
        self._look_now.set()

    async def _keep_looking(self) -> None:
        thorough_at = self._clock.steady()
        while True:
            self._look_now.clear()
            thorough = self._clock.steady() >= thorough_at
            if thorough:
                thorough_at = self._clock.steady() + self._pace.report
            await self._look(thorough)
            await asyncio.sleep(self._pace.breath)
            try:
                async with asyncio.timeout(self._pace.look - self._pace.breath):
                    await self._look_now.wait()
            except TimeoutError:
                continue

    async def _look(self, thorough: bool) -> None:
        began, before = self._clock.steady(), self._eyes.rounds.stock
        counted = self._kind is GpuNodeKind.COUNTED
        given = await self._eyes.kubelet.given(before, self._eyes.pods) if counted else {}
        findings = await self._eyes.rounds.look(thorough=thorough, given=given)
        self._voice.metrics.look_seconds.observe(self._clock.steady() - began)
        self._take_in(findings, given if counted else rights_of(self._eyes.pods.values()))
        self._tell_unwell(before, findings.stock)

    def _take_in(self, findings: Findings, rights: Mapping[int, tuple[str, ...]]) -> None:
        """Compare with what was known, and wake who tells the cluster if it matters there."""
        self._strays.note(strays(findings.occupants, rights))
        busy = {device.id: _utilisation(findings, device.uuid) for device in findings.stock.devices}
        self._tenancies = tenancies(self._tenancies, rights, busy, now=findings.at)
        before, held = self._findings, self._rights
        self._findings, self._rights, self.looked_at = findings, rights, findings.at
        ill = {device.id for device in findings.stock.devices if device.health is not Health.HEALTHY}
        # Whether an unhealthy GPU is held decides whether it is still counted.
        if before is None or _differs(before, findings) or self._strays.suspects or ill & (held.keys() ^ rights.keys()):
            self._news.set()
        show(self._voice.metrics, findings, self._tenancies, self._strays.at_large)

    def _tell_unwell(self, before: Stock, after: Stock) -> None:
        for item in newly_unwell(before, after):
            gpu = item.device
            note = f"GPU {gpu.id} ({gpu.uuid}) of {self._node} is {gpu.health.value}: {item.why}"
            log.warning("gpu unwell", gpu=gpu.id, uuid=gpu.uuid, health=gpu.health.value, why=item.why)
            for about in self._pods_on(item) or (self._about_node,):
                self._voice.events.tell(Announcement(about, EventReason.GPU_UNHEALTHY, note, self._about_node))

    def _pods_on(self, item: Item) -> tuple[Subject, ...]:
        uids = dict.fromkeys((*self._rights.get(item.device.id, ()), *item.device.in_use_by))
        return tuple(about for uid in uids if (about := self._pod(uid)) is not None)

    def _pod(self, uid: str) -> Subject | None:
        key = next((pod.key for pod in self._eyes.pods.values() if pod.uid == uid), None)
        return None if key is None else Subject("Pod", key, uid)

    async def _keep_telling(self, boot_id: str) -> None:
        wait = 0.0
        while True:
            try:
                async with asyncio.timeout(wait):
                    await self._news.wait()
            except TimeoutError:
                self._strays.doubt_excuses()
            self._news.clear()
            wait = await self._tell(boot_id)
            await asyncio.sleep(self._pace.spacing)

    async def _tell(self, boot_id: str) -> float:
        """Write what was found last. Returns for how long that holds."""
        findings = self._findings
        if findings is None:
            return self._pace.report
        inventory = Inventory(node=self._node, reported_at=findings.at, devices=findings.stock.devices, kind=self._kind)
        try:
            await self._voice.publisher.report(inventory, _aspects(findings))
            self._voice.metrics.reported(ReportOutcome.WRITTEN)
            self.reported_at = findings.at
            await self._voice.publisher.mark(inventory, self._rights)
            await self._ask_about_strays()
            await self._choose_kind()
        except ApiError as error:
            self._voice.metrics.reported(ReportOutcome.FAILED)
            log.warning("report failed", error=str(error))
            if isinstance(error, NotFound):
                await self._introduce_again(boot_id)
            self._retry = min(2 * self._retry, self._pace.longest_retry)
            return self._retry
        self._retry = self._pace.retry / 2
        return self._pace.report

    async def _introduce_again(self, boot_id: str) -> None:
        """Somebody deleted our GpuNodeStatus."""
        try:
            await self._voice.publisher.introduce(boot_id)
        except ApiError as error:
            log.warning("introduction failed", error=str(error))

    async def _ask_about_strays(self) -> None:
        """A pod that is gone may still hold the GPU's Lease: then it is in quarantine, and nobody is astray."""
        for stray in self._strays.suspects:
            lease = await self._voice.leases.lease(lease_name(self._node, stray.device)) if stray.pod else None
            if lease is not None and any(hold.uid == stray.pod for hold in lease.holds):
                self._strays.excuse(stray)
                continue
            self._tell_stray(stray)
            self._strays.told(stray)

    def _tell_stray(self, stray: Stray) -> None:
        who = f"of pod {stray.pod}" if stray.pod else "of the host"
        note = f"process {stray.pid} {who} uses GPU {stray.device} of {self._node}, which was not given to it"
        log.warning("stray process", gpu=stray.device, pid=stray.pid, pod=stray.pod)
        about = self._pod(stray.pod) or self._about_node
        self._voice.events.tell(Announcement(about, EventReason.GPU_USED_WITHOUT_LEASE, note, self._about_node))


def _utilisation(findings: Findings, uuid: str) -> int | None:
    sight = findings.sight(uuid)
    return None if sight is None or sight.vitals is None else sight.vitals.utilisation


def _differs(one: Findings, other: Findings) -> bool:
    return (one.stock.devices, one.look.trouble, unwell(one.stock)) != (
        other.stock.devices,
        other.look.trouble,
        unwell(other.stock),
    )


def _aspects(findings: Findings) -> tuple[Aspect, ...]:
    look, wrong = findings.look, unwell(findings.stock)
    ready = Aspect(READY, True, "GpusRead", f"{len(findings.stock.items)} GPUs")
    if look.trouble:
        ready = Aspect(
            READY, None if look.silent else False, "DriverSilent" if look.silent else "DriverFailed", look.trouble
        )
    well = Aspect(ALL_HEALTHY, not wrong, "SomeUnhealthy" if wrong else "AllHealthy", wrong[:1024])
    return well, ready
