"""VmRunner: performs what the state machine of one VM decides. Requests, resizes and readings run side by side."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import structlog

from ullage.act.vm_size import write_vm_size
from ullage.clock import Clock
from ullage.decide.vm_agent.core import AgentTimings, AskScheduler, ResizeVm, VmAgentCore
from ullage.decide.vm_agent.goal import NO_METRICS, ScalingRules, VmBounds, VmMetrics
from ullage.errors import ApiError, NotFound
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import VIRTUAL_MACHINES
from ullage.model.quantity import bytes_text, cores_text
from ullage.model.units import Instant
from ullage.model.vm import VmAmounts
from ullage.observe.once import OnceLog
from ullage.observe.vm_agent_metrics import VmAgentMetrics
from ullage.protocol.vm_permits import PermitAnswer, PermitMessage, WireAmounts
from ullage.runtime import Wakeup
from ullage.vm_agent.client import AskFailure, AskTrouble, PermitClient
from ullage.vm_agent.facts import GuestPod, GuestVm, read_guest_vm
from ullage.vm_agent.metrics_source import MetricsSource, MetricsTarget
from ullage.watch.informer_cache import is_later, version_of

VERSION = 7
_API_SECONDS = 10.0
_NO_RULES, _NO_TIMINGS = ScalingRules(), AgentTimings()
log = structlog.get_logger("vm-agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPolicy:
    """Rules by which all VMs of a node are resized."""

    unit: VmAmounts
    """Compute unit."""
    rules: ScalingRules = _NO_RULES
    timings: AgentTimings = _NO_TIMINGS
    unplug_seconds: float = 30.0
    """Longest wait for the VM controller to report that a VM has shrunk. Then the attempt has failed."""


@dataclass(slots=True)
class AgentContacts:
    """Other programs the agent talks to, and the record of it. One for all VMs of the node."""

    api: KubeApi
    permits: PermitClient
    metrics_source: MetricsSource
    metrics: VmAgentMetrics
    clock: Clock
    troubles: OnceLog = field(default_factory=lambda: OnceLog(log))
    answered_at: float | None = None
    """Steady seconds of the scheduler's last answer."""
    failing_since: float | None = None
    """Steady seconds since which requests get no answer."""

    def now(self) -> Instant:
        """Steady seconds: a clock that is set changes no pause."""
        return Instant(self.clock.steady())


class VmRunner:
    """Work on one VM in one pod. `run` until cancelled."""

    def __init__(self, pod: GuestPod, guest: GuestVm, contacts: AgentContacts, policy: ScalingPolicy) -> None:
        self.pod = pod
        self._guest = guest
        self._contacts = contacts
        self._policy = policy
        self._core = VmAgentCore(_bounds(guest), policy.unit, policy.rules, policy.timings)
        self._core.observe_vm(_bounds(guest), migrating=guest.phase.migrating)
        self._reading: VmMetrics = NO_METRICS
        self._wake = Wakeup()
        self._seen = asyncio.Event()
        """Set by each newer VirtualMachine."""
        self._log = log.bind(vm=str(guest.vm.key), pod=pod.key.name)

    @property
    def state(self) -> str:
        """State for metrics."""
        if self._core.stays:
            return "moving"
        if self._reading is NO_METRICS:
            return "blind"
        permit = self._core.permit
        short = permit is not None and not self._core.desired(now=self._contacts.now()).within(permit)
        return "short" if short else "ok"

    def is_for(self, pod: GuestPod, guest: GuestVm) -> bool:
        """True if this runner works on that VM in that pod, and the machine still has its address."""
        known = self._guest.vm.uid
        return (pod.uid, pod.address, guest.vm.uid) == (self.pod.uid, self.pod.address, known)

    def observe(self, guest: GuestVm) -> None:
        """Take over the VirtualMachine, unless a later one is known: a watch may be behind the agent's own writes."""
        newer = is_later(version_of(guest.vm.resource_version), version_of(self._guest.vm.resource_version))
        if guest.vm.uid != self._guest.vm.uid or not newer:
            return
        self._guest = guest
        self._core.observe_vm(_bounds(guest), migrating=guest.phase.migrating)
        self._seen.set()
        self._wake.set()

    def configure(self, policy: ScalingPolicy) -> None:
        """Take over another policy, and decide by it."""
        self._policy = policy
        self._core.configure(policy.unit, policy.rules, policy.timings)
        self._wake.set()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(), name=f"metrics of {self.pod.key}")
            while True:
                self._wake.clear()
                actions = self._core.next_actions(now=self._contacts.now())
                if actions.ask is not None:
                    self._core.ask_begun(actions.ask, now=self._contacts.now())
                    group.create_task(self._ask(actions.ask), name=f"request of {self.pod.key}")
                if actions.resize is not None:
                    self._core.resize_begun(actions.resize)
                    group.create_task(self._resize(actions.resize), name=f"resize of {self.pod.key}")
                if actions.ask is None and actions.resize is None:
                    until = actions.wait_until
                    await self._wake.wait(None if until is None else until - self._contacts.now())

    # Metrics.

    async def _read(self) -> None:
        target = MetricsTarget(self._guest.vm.key, self.pod.address)
        source: Any = self._contacts.metrics_source.readings(target)
        async with aclosing(source) as readings:
            async for reading in readings:
                key = ("metrics", self.pod.uid)
                self._contacts.metrics.readings.labels(reading.trouble or "ok").inc()
                if reading.trouble is None:
                    if self._contacts.troubles.forget(key):
                        self._log.info("metrics are read again")
                else:
                    now = self._contacts.now()
                    self._contacts.troubles.warning(
                        "metrics not read", key, now=now, vm=str(target.vm), trouble=reading.trouble,
                        detail=reading.detail,
                    )  # fmt: skip
                if reading.metrics != NO_METRICS:
                    self._reading = reading.metrics
                    self._core.observe_metrics(reading.metrics, now=self._contacts.now())
                    self._wake.set()

    # Requests.

    async def _ask(self, ask: AskScheduler) -> None:
        began = self._contacts.now()
        answer = await self._contacts.permits.ask(self._message(ask), self._guest.vm.memory_slot)
        outcome = self._permitted(ask, answer, began) if isinstance(answer, PermitAnswer) else self._refused(answer)
        self._contacts.metrics.requests.labels(outcome).inc()
        self._wake.set()

    def _message(self, ask: AskScheduler) -> PermitMessage:
        return PermitMessage(
            version=VERSION,
            pod=self.pod.key,
            resources=_wire(ask.wanted),
            unit=_wire(self._policy.unit),
            last_permit=None if ask.last_permit is None else _wire(ask.last_permit),
            load1=self._reading.load1,
        )

    def _permitted(self, ask: AskScheduler, answer: PermitAnswer, began: Instant) -> str:
        """Take over a permit, in whole memory slots. Returns the outcome for metrics."""
        contacts, slot = self._contacts, self._guest.vm.memory_slot
        now = contacts.now()
        contacts.metrics.request_seconds.observe(now - began)
        granted = VmAmounts(answer.granted.cpu, answer.granted.memory // slot * slot)
        before = self._core.permit
        if not self._core.ask_answered(granted, migrate=answer.migrate, now=now):
            self._warn(AskFailure(AskTrouble.INVALID, f"permit of {_said(granted)} for {_said(ask.wanted)}"))
            return AskTrouble.INVALID
        contacts.answered_at, contacts.failing_since = now, None
        if contacts.troubles.forget("scheduler"):
            log.info("the scheduler answers again")
        if granted == ask.wanted:
            return "granted"
        key = ("denied", self.pod.uid)
        contacts.troubles.warning(
            "granted less than asked", key, now=now, vm=str(self._guest.vm.key), asked=_said(ask.wanted),
            granted=_said(granted),
        )  # fmt: skip
        return "denied" if before is not None and granted.within(before) else "partial"

    def _refused(self, failure: AskFailure) -> str:
        now = self._contacts.now()
        if failure.trouble is AskTrouble.MIGRATING:
            self._core.ask_refused_as_migrating(now=now)
        else:
            self._core.ask_failed(now=now)
            self._warn(failure)
        return failure.trouble

    def _warn(self, failure: AskFailure) -> None:
        """Log a failure once: of all VMs together where the scheduler does not answer at all."""
        contacts, now = self._contacts, self._contacts.now()
        shared = failure.trouble in (AskTrouble.UNREACHABLE, AskTrouble.UNAUTHORIZED)
        if shared and contacts.failing_since is None:
            contacts.failing_since = now
        key: object = "scheduler" if shared else (failure.trouble, self.pod.uid)
        fields = {} if shared else {"vm": str(self._guest.vm.key)}
        contacts.troubles.warning(
            "request failed", key, now=now, trouble=failure.trouble, detail=failure.detail, **fields
        )

    # Resizes.

    async def _resize(self, resize: ResizeVm) -> None:
        before = self._guest.using
        try:
            async with asyncio.timeout(_API_SECONDS):
                written = read_guest_vm(await write_vm_size(self._contacts.api, self._guest.vm, resize.target))
        except (ApiError, TimeoutError) as error:
            await self._resize_failed(resize, before, str(error) or "no answer in time")
            return
        self.observe(written)
        self._log.info("resized", frm=_said(before), to=_said(resize.target), why=resize.why)
        if await self._unplugged(resize.target):
            self._core.resize_done()
        else:
            self._core.resize_failed(now=self._contacts.now())
            now = self._contacts.now()
            self._contacts.troubles.warning(
                "the VM has not shrunk yet", ("unplug", self.pod.uid), now=now, vm=str(self._guest.vm.key),
                has=_said(self._guest.using), wanted=_said(resize.target),
            )  # fmt: skip
        self._settled(resize, before, "done")

    async def _resize_failed(self, resize: ResizeVm, before: VmAmounts, detail: str) -> None:
        """Find out the size the VM has before anything else is decided: the write may have happened."""
        now, key = self._contacts.now(), ("resize", self.pod.uid)
        vm = self._guest.vm.key
        self._contacts.troubles.warning(
            "VM not resized", key, now=now, vm=str(vm), wanted=_said(resize.target), detail=detail
        )
        while True:
            try:
                async with asyncio.timeout(_API_SECONDS):
                    found = read_guest_vm(await self._contacts.api.get(VIRTUAL_MACHINES, vm.name, vm.namespace))
            except NotFound:
                break
            except (ApiError, TimeoutError):
                await asyncio.sleep(self._policy.timings.after_failed_resize)
                continue
            self.observe(found)
            break
        self._core.resize_failed(now=self._contacts.now())
        self._settled(resize, before, "failed")

    async def _unplugged(self, target: VmAmounts) -> bool:
        """Wait until the machine has given back what it has to. At once where its controller reports no size."""
        try:
            async with asyncio.timeout(self._policy.unplug_seconds):
                while (plugged := self._guest.plugged) is not None and not plugged.within(target):
                    self._seen.clear()
                    await self._seen.wait()
        except TimeoutError:
            return False
        return True

    def _settled(self, resize: ResizeVm, before: VmAmounts, outcome: str) -> None:
        self._core.observe_vm(_bounds(self._guest), migrating=self._guest.phase.migrating)
        grows, shrinks = not resize.target.within(before), not before.within(resize.target)
        direction = "both" if grows and shrinks else "up" if grows else "down"
        self._contacts.metrics.resizes.labels(direction, outcome).inc()
        self._wake.set()


def _bounds(guest: GuestVm) -> VmBounds:
    return VmBounds(using=guest.using, minimum=guest.vm.minimum, maximum=guest.vm.maximum)


def _wire(amounts: VmAmounts) -> WireAmounts:
    return WireAmounts(amounts.cpu, amounts.memory)


def _said(amounts: VmAmounts) -> str:
    return f"{cores_text(amounts.cpu)} CPU and {bytes_text(amounts.memory)}"
