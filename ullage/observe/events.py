"""Kubernetes Events, recorded without ever delaying the caller.

`tell` only queues an Event. The recorder's own tasks write queued Events, a few at a time, oldest first. An Event
repeated while it is queued is counted; one repeated within the hour is added to the existing Event. When too many are
queued, the oldest is dropped and counted. The writer decides the form of an Event.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, Self

import structlog

from ullage import errors
from ullage.clock import Clock, Instant
from ullage.model.fact_event import ObjectKey
from ullage.observe.once import OnceLog

_log = structlog.get_logger("events")

_TRANSIENT = (errors.Unreachable, errors.ServerFailure, errors.TooManyRequests)
_LONGEST_NAME = 253
_DIGEST_LENGTH = 16


class EventReason(StrEnum):
    """Reasons of Events. A closed list: people filter by these words."""

    SCHEDULED = "Scheduled"
    FAILED_SCHEDULING = "FailedScheduling"
    PREEMPTED = "Preempted"
    """Reported on the pod that was evicted."""
    GANG_TIMED_OUT = "GangTimedOut"
    GPU_UNHEALTHY = "GpuUnhealthy"
    """Reported on every pod on the GPU, or on its node."""
    GPU_USED_WITHOUT_LEASE = "GpuUsedWithoutLease"
    NODES_LAUNCHED = "NodesLaunched"
    """This and the following are reported on NodeProvisioners, and on the nodes concerned."""
    CAPACITY_BLOCKED = "CapacityBlocked"
    """The cloud has no more of these machines, or we may not have them."""
    SCALE_UP_FAILED = "ScaleUpFailed"
    NODE_FAILED_TO_REGISTER = "NodeFailedToRegister"
    INSTANCE_WITHOUT_NODE = "InstanceWithoutNode"
    """The Node of a machine was deleted and did not come back: the machine is given back."""
    AGENTS_SILENT = "AgentsSilent"
    """No agent reports the GPUs of some nodes of a pool."""
    TRIGGERED_SCALE_UP = "TriggeredScaleUp"
    """Reported on pods for which nodes were bought; this and the next have Cluster Autoscaler's names."""
    NOT_TRIGGER_SCALE_UP = "NotTriggerScaleUp"
    NODE_TAINTED_FOR_DELETION = "NodeTaintedForDeletion"
    NODE_UNTAINTED = "NodeUntainted"
    NODE_REMOVED = "NodeRemoved"
    NODE_NOT_REMOVED = "NodeNotRemoved"
    NODE_DRAINING = "NodeDraining"
    """The node's pods are being evicted; then the node is removed."""
    NODE_DRAINED = "NodeDrained"
    """The node is empty and cordoned, and left to its owner."""
    POD_EVICTED = "PodEvicted"
    """Reported on pods whose node is being removed."""
    POD_NOT_EVICTED = "PodNotEvicted"
    DEPRECATED_FIELD = "DeprecatedField"
    SCALE_UP_TRIGGERED = "ScaleUpTriggered"
    """Reported on a pending pod: Karpenter was asked for a node."""
    NODE_HANDED_OVER = "NodeHandedOver"
    """Reported on a pending pod: the node that was bought for it is now its own."""
    SETTINGS_RELOADED = "SettingsReloaded"
    """Reported on the Lease of the leader: its settings file changed."""
    SETTINGS_REFUSED = "SettingsRefused"
    """The changed settings file cannot be used; the settings in force stay."""
    HANDOVER_UNPROTECTED = "HandoverUnprotected"
    """Reported on a NodePool: other pods may take a node before the pod it was bought for."""
    VM_MIGRATION_STARTED = "VmMigrationStarted"
    """Reported on a VirtualMachine that leaves a node under pressure."""
    VM_PRESSURE = "VmPressure"
    VM_NODE_TOO_SMALL = "VmNodeTooSmall"
    """Reported on a node whose VMs want more than it has, where no migration helps."""
    VM_CONFIG_REFUSED = "VmConfigRefused"
    """Reported on the ConfigMap of node configuration."""
    VM_APPROVAL_UNREADABLE = "VmApprovalUnreadable"
    """Reported on a VM pod whose approval is missing, malformed or more than its VM may have."""


@dataclass(frozen=True, slots=True)
class EventStyle:
    """Presentation of a reason in an Event."""

    action: str
    """Action of the Event, in one word."""
    warning: bool = False
    by_topic: bool = False
    """Repeated on one object in texts that differ, if only in their numbers. The topic decides whether it is the
    same Event, and the Event keeps its first text (an Event's note cannot be changed)."""


KINDS: Mapping[EventReason, EventStyle] = {
    EventReason.SCHEDULED: EventStyle("Binding"),
    EventReason.FAILED_SCHEDULING: EventStyle("Scheduling", warning=True, by_topic=True),
    EventReason.PREEMPTED: EventStyle("Preempting"),
    EventReason.GANG_TIMED_OUT: EventStyle("Scheduling", warning=True),
    EventReason.GPU_UNHEALTHY: EventStyle("Watching", warning=True),
    EventReason.GPU_USED_WITHOUT_LEASE: EventStyle("Watching", warning=True),
    EventReason.NODES_LAUNCHED: EventStyle("ScalingUp"),
    EventReason.CAPACITY_BLOCKED: EventStyle("ScalingUp", warning=True),
    EventReason.SCALE_UP_FAILED: EventStyle("ScalingUp", warning=True),
    EventReason.NODE_FAILED_TO_REGISTER: EventStyle("ScalingUp", warning=True),
    EventReason.INSTANCE_WITHOUT_NODE: EventStyle("ScalingDown", warning=True),
    EventReason.AGENTS_SILENT: EventStyle("Watching", warning=True),
    EventReason.TRIGGERED_SCALE_UP: EventStyle("ScalingUp"),
    EventReason.NOT_TRIGGER_SCALE_UP: EventStyle("ScalingUp"),
    EventReason.NODE_TAINTED_FOR_DELETION: EventStyle("ScalingDown"),
    EventReason.NODE_UNTAINTED: EventStyle("ScalingDown"),
    EventReason.NODE_REMOVED: EventStyle("ScalingDown"),
    EventReason.NODE_NOT_REMOVED: EventStyle("ScalingDown", warning=True),
    EventReason.NODE_DRAINING: EventStyle("Draining"),
    EventReason.NODE_DRAINED: EventStyle("Draining"),
    EventReason.POD_EVICTED: EventStyle("Draining"),
    EventReason.POD_NOT_EVICTED: EventStyle("Draining", warning=True),
    EventReason.DEPRECATED_FIELD: EventStyle("Reading", warning=True),
    EventReason.SCALE_UP_TRIGGERED: EventStyle("ScalingUp"),
    EventReason.NODE_HANDED_OVER: EventStyle("ScalingUp"),
    EventReason.SETTINGS_RELOADED: EventStyle("Reading"),
    EventReason.SETTINGS_REFUSED: EventStyle("Reading", warning=True),
    EventReason.HANDOVER_UNPROTECTED: EventStyle("Reading", warning=True),
    EventReason.VM_MIGRATION_STARTED: EventStyle("Migrating"),
    EventReason.VM_PRESSURE: EventStyle("Watching", warning=True, by_topic=True),
    EventReason.VM_NODE_TOO_SMALL: EventStyle("Watching", warning=True, by_topic=True),
    EventReason.VM_CONFIG_REFUSED: EventStyle("Reading", warning=True),
    EventReason.VM_APPROVAL_UNREADABLE: EventStyle("Reading", warning=True, by_topic=True),
}


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object an Event is about."""

    kind: str
    key: ObjectKey
    uid: str = ""
    api_version: str = "v1"


@dataclass(frozen=True, slots=True)
class EventMessage:
    """One Event to record."""

    about: ObjectReference
    reason: EventReason
    note: str
    related: ObjectReference | None = None
    topic: str = ""
    """Stable key of the Event, however its note is worded: for reasons with `by_topic`."""

    @property
    def identity(self) -> "tuple[ObjectReference, EventReason, str]":
        """Equal for repetitions of one Event."""
        return self.about, self.reason, self.topic if KINDS[self.reason].by_topic else self.note


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSeries:
    """An Event as it is to be on the API server."""

    name: str
    announcement: EventMessage
    first: Instant
    last: Instant
    count: int = 1


class EventWriter(Protocol):
    """Writes Events. Raises ApiError."""

    async def create(self, record: EventSeries) -> None:
        """Create an Event. AlreadyExists means that it was written before."""
        ...

    async def repeat(self, record: EventSeries) -> None:
        """Count one more occurrence on an existing Event. Raises NotFound if it is gone."""
        ...


class EventWriteResult(StrEnum):
    """Result of an Event write. A closed list: it labels the metric."""

    CREATED = "created"
    REPEATED = "repeated"
    DROPPED = "dropped"
    """Too much was waiting, or the recorder was closed."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class EventLimits:
    """Limits. Times in seconds."""

    most_waiting: int = 10_000
    at_once: int = 32
    """Writes under way: a scheduler that has 64 placements under way, two writes each, makes Events as fast as this."""
    at_once_beside_urgent: int = 2
    """Writes under way while more urgent ones are: Events can wait, pods that are to start cannot."""
    patience: float = 10.0
    """Time an Event may wait for more urgent writes, in seconds."""
    series: float = 3300.0
    """Time within which a repetition is counted on the existing Event, in seconds. Servers keep Events for an hour."""
    most_series: int = 8192
    retries: tuple[float, ...] = (0.5, 2.0)
    """Waits before a write that failed for no fault of its own is tried again."""
    farewell: float = 5.0
    """Time closing waits for Events still to be written, in seconds."""


_Same = tuple[ObjectReference, EventReason, str]


class EventRecorder:
    """Use it as an async context: it writes as long as the block lasts, and a little longer."""

    def __init__(
        self,
        writer: EventWriter,
        clock: Clock,
        *,
        instance: str,
        pace: EventLimits = EventLimits(),  # noqa: B008 - frozen
        on_fate: Callable[[EventWriteResult], None] = lambda _: None,
    ) -> None:
        """`instance` tells replicas apart: two of them never make the same name."""
        self._writer = writer
        self._clock = clock
        self._instance = instance
        self._pace = pace
        self._on_fate = on_fate
        self._log = OnceLog(_log)
        self.others_are_urgent: Callable[[], bool] = lambda: False
        """Returns True while other writes should come first."""
        self._waiting: dict[_Same, EventSeries] = {}
        self._being_written: set[_Same] = set()
        self._series: dict[_Same, EventSeries] = {}
        self._bell = asyncio.Event()
        self._bell_of_reserves = asyncio.Event()
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(
                self._write_on(is_reserve=number >= self._pace.at_once_beside_urgent), name=f"events {number}"
            )
            for number in range(self._pace.at_once)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Write what is left, for a while; then drop it."""
        self._closing = True
        self._ring()
        try:
            await asyncio.wait(self._tasks, timeout=self._pace.farewell)
        finally:
            for task in self._tasks:
                task.cancel()
            for _ in self._waiting:
                self._on_fate(EventWriteResult.DROPPED)
            self._waiting.clear()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended  # a bug of ours; being cancelled is no exception of that kind

    def record(self, announcement: EventMessage) -> None:
        """Note it. Never waits, never fails."""
        if self._closing:
            self._on_fate(EventWriteResult.DROPPED)
            return
        now = self._clock.now()
        same = announcement.identity
        waiting = self._waiting.get(same)
        if waiting is not None:
            self._waiting[same] = replace(waiting, announcement=announcement, count=waiting.count + 1, last=now)
            return
        if len(self._waiting) >= self._pace.most_waiting:
            del self._waiting[next(iter(self._waiting))]
            self._on_fate(EventWriteResult.DROPPED)
        self._waiting[same] = EventSeries(name="", announcement=announcement, first=now, last=now)
        self._ring()

    def _ring(self) -> None:
        """Wake the writers that may write now."""
        self._bell.set()
        if not self._reserves_stand_back():
            self._bell_of_reserves.set()

    def _reserves_stand_back(self) -> bool:
        """True while reserve writers wait for more urgent writes. Asked again each time a writer has finished."""
        if self._closing or not self.others_are_urgent() or len(self._waiting) >= self._pace.most_waiting // 2:
            return False
        oldest = next(iter(self._waiting.values()), None)
        return oldest is None or self._clock.now() - oldest.first < self._pace.patience

    async def _write_on(self, *, is_reserve: bool) -> None:
        bell = self._bell_of_reserves if is_reserve else self._bell
        while True:
            same = None if is_reserve and self._reserves_stand_back() else self._next()
            if same is not None:
                await self._write(same)
            elif self._closing and not self._waiting:
                return
            else:
                bell.clear()
                await bell.wait()

    def _next(self) -> _Same | None:
        """The oldest, except those of which an earlier telling is just being written."""
        return next((same for same in self._waiting if same not in self._being_written), None)

    async def _write(self, same: _Same) -> None:
        series = self._waiting.pop(same)
        self._being_written.add(same)
        try:
            fate = await self._try(same, series)
        finally:
            self._being_written.discard(same)
            if self._waiting or self._closing:
                self._ring()
        self._on_fate(fate)

    async def _try(self, same: _Same, series: EventSeries) -> EventWriteResult:
        for wait in (*self._pace.retries, None):
            try:
                return await self._put(same, series)
            except _TRANSIENT:
                if wait is None:
                    break
                await asyncio.sleep(wait)
            except errors.UllageError as error:
                self._log.warning("events cannot be written", type(error).__name__, now=series.last, error=str(error))
                break
        return EventWriteResult.FAILED

    async def _put(self, same: _Same, series: EventSeries) -> EventWriteResult:
        there = self._in_series(same, series.last)
        if there is not None:
            again = replace(there, count=there.count + series.count, last=series.last)
            try:
                await self._writer.repeat(again)
            except errors.NotFound:
                del self._series[same]  # Events do not last for ever
            else:
                self._remember(same, again)
                return EventWriteResult.REPEATED
        record = replace(series, name=self._name(series))
        with suppress(errors.AlreadyExists):  # then it is ours: written by an attempt whose answer was lost
            await self._writer.create(record)
        self._remember(same, record)
        return EventWriteResult.CREATED

    def _in_series(self, same: _Same, now: Instant) -> EventSeries | None:
        there = self._series.get(same)
        return there if there is not None and now - there.last <= self._pace.series else None

    def _remember(self, same: _Same, record: EventSeries) -> None:
        """Keep it for its successors; forget those that are too old to have any, oldest first."""
        self._series.pop(same, None)
        self._series[same] = record
        while self._series:
            oldest = next(iter(self._series))
            if len(self._series) <= self._pace.most_series and self._in_series(oldest, record.last) is not None:
                break
            del self._series[oldest]

    def _name(self, record: EventSeries) -> str:
        """Name of the Event. Always the same for one series: an attempt made twice makes one Event."""
        about = record.announcement.about
        parts = (self._instance, about.uid, record.announcement.reason, record.announcement.note, repr(record.first))
        digest = hashlib.sha256("\0".join((str(about.key), about.kind, *parts)).encode()).hexdigest()[:_DIGEST_LENGTH]
        return f"{about.key.name[: _LONGEST_NAME - _DIGEST_LENGTH - 1].rstrip('-.')}.{digest}"
