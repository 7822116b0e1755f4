"""Kubernetes Events, told without ever holding up whoever has something to tell.

`tell` only notes it. Tasks of the recorder's own write what was noted, a few at a time, oldest first. What is told
again while it waits is counted, and what is told again within minutes is added to the Event that is there. When too
much waits, the oldest is dropped and counted. How an Event is spelled is the writer's business.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, Self

from ullage import errors
from ullage.clock import Clock, Instant
from ullage.model.event import ObjectKey

_TRANSIENT = (errors.Unreachable, errors.ServerFailure, errors.TooManyRequests)
_LONGEST_NAME = 253
_DIGEST_LENGTH = 16


class EventReason(StrEnum):
    """What can be told. The closed list; people filter by these words."""

    SCHEDULED = "Scheduled"
    FAILED_SCHEDULING = "FailedScheduling"
    CLAIM_REFUSED = "ClaimRefused"
    """Something is wrong with the claim a pod names."""
    PREEMPTED = "Preempted"
    """Told of the pod that had to go."""
    GANG_WAITING = "GangWaiting"
    GANG_TIMED_OUT = "GangTimedOut"
    GPU_FREED = "GpuFreed"
    GPU_QUARANTINED = "GpuQuarantined"
    GPU_UNHEALTHY = "GpuUnhealthy"
    """Told of every pod on it, or of its node."""
    GPU_USED_WITHOUT_LEASE = "GpuUsedWithoutLease"
    NODES_BOUGHT = "NodesBought"
    """These and the following are told of NodeProvisioners, and of the nodes concerned."""
    CAPACITY_BLOCKED = "CapacityBlocked"
    """The cloud has no more of these machines, or we may not have them."""
    PURCHASE_FAILED = "PurchaseFailed"
    NODE_NEVER_JOINED = "NodeNeverJoined"
    NODE_TAINTED = "NodeTainted"
    NODE_SPARED = "NodeSpared"
    NODE_REMOVED = "NodeRemoved"
    NODE_NOT_REMOVED = "NodeNotRemoved"
    NODE_DRAINING = "NodeDraining"
    """Its pods are asked to go elsewhere, and then it goes."""
    NODE_DRAINED = "NodeDrained"
    """It is empty and cordoned, and left to its owner."""
    POD_EVICTED = "PodEvicted"
    """Told of pods whose node goes."""
    POD_NOT_EVICTED = "PodNotEvicted"
    DEPRECATED_FIELD = "DeprecatedField"


@dataclass(frozen=True, slots=True)
class EventKind:
    """How a reason is shown."""

    action: str
    """What was being done, in one word."""
    warning: bool = False


KINDS: Mapping[EventReason, EventKind] = {
    EventReason.SCHEDULED: EventKind("Binding"),
    EventReason.FAILED_SCHEDULING: EventKind("Scheduling", warning=True),
    EventReason.CLAIM_REFUSED: EventKind("Scheduling", warning=True),
    EventReason.PREEMPTED: EventKind("Preempting"),
    EventReason.GANG_WAITING: EventKind("Scheduling"),
    EventReason.GANG_TIMED_OUT: EventKind("Scheduling", warning=True),
    EventReason.GPU_FREED: EventKind("Sweeping"),
    EventReason.GPU_QUARANTINED: EventKind("Sweeping", warning=True),
    EventReason.GPU_UNHEALTHY: EventKind("Watching", warning=True),
    EventReason.GPU_USED_WITHOUT_LEASE: EventKind("Watching", warning=True),
    EventReason.NODES_BOUGHT: EventKind("ScalingUp"),
    EventReason.CAPACITY_BLOCKED: EventKind("ScalingUp", warning=True),
    EventReason.PURCHASE_FAILED: EventKind("ScalingUp", warning=True),
    EventReason.NODE_NEVER_JOINED: EventKind("ScalingUp", warning=True),
    EventReason.NODE_TAINTED: EventKind("ScalingDown"),
    EventReason.NODE_SPARED: EventKind("ScalingDown"),
    EventReason.NODE_REMOVED: EventKind("ScalingDown"),
    EventReason.NODE_NOT_REMOVED: EventKind("ScalingDown", warning=True),
    EventReason.NODE_DRAINING: EventKind("Draining"),
    EventReason.NODE_DRAINED: EventKind("Draining"),
    EventReason.POD_EVICTED: EventKind("Draining"),
    EventReason.POD_NOT_EVICTED: EventKind("Draining", warning=True),
    EventReason.DEPRECATED_FIELD: EventKind("Reading", warning=True),
}


@dataclass(frozen=True, slots=True)
class Subject:
    """The object an Event is about."""

    kind: str
    key: ObjectKey
    uid: str = ""
    api_version: str = "v1"


@dataclass(frozen=True, slots=True)
class Announcement:
    """Something worth telling."""

    about: Subject
    reason: EventReason
    note: str
    related: Subject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An Event as it is to be on the API server."""

    name: str
    announcement: Announcement
    first: Instant
    last: Instant
    count: int = 1


class EventWriter(Protocol):
    """Puts records where people find them. Raises ApiError."""

    async def create(self, record: Record) -> None:
        """A new one. AlreadyExists means that it was written before."""
        ...

    async def repeat(self, record: Record) -> None:
        """One that is there has happened again. Raises NotFound where it is not there any more."""
        ...


class EventFate(StrEnum):
    """What became of what was told. The closed list: it labels the metric."""

    CREATED = "created"
    REPEATED = "repeated"
    DROPPED = "dropped"
    """Too much was waiting, or the recorder was closed."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class EventPace:
    """Limits. Times in seconds."""

    most_waiting: int = 10_000
    at_once: int = 32
    """Writes under way: a scheduler that has 64 placements under way, two writes each, makes Events as fast as this."""
    at_once_beside_urgent: int = 2
    """Writes under way while more urgent ones are: what is told can wait, pods that are to start cannot."""
    patience: float = 10.0
    """How long what is told may wait for that."""
    series: float = 300.0
    """The same told again within this time is counted on the Event that is there."""
    most_series: int = 8192
    retries: tuple[float, ...] = (0.5, 2.0)
    """Waits before a write that failed for no fault of its own is tried again."""
    farewell: float = 5.0
    """How long closing waits for what is still to be written."""


_Same = tuple[Subject, EventReason, str]


class EventRecorder:
    """Use it as an async context: it writes as long as the block lasts, and a little longer."""

    def __init__(
        self,
        writer: EventWriter,
        clock: Clock,
        *,
        instance: str,
        pace: EventPace = EventPace(),  # noqa: B008 - frozen
        on_fate: Callable[[EventFate], None] = lambda _: None,
    ) -> None:
        """`instance` tells replicas apart: two of them never make the same name."""
        self._writer = writer
        self._clock = clock
        self._instance = instance
        self._pace = pace
        self._on_fate = on_fate
        self.others_are_urgent: Callable[[], bool] = lambda: False
        """Whether there are other writes that should come first."""
        self._waiting: dict[_Same, Record] = {}
        self._being_written: set[_Same] = set()
        self._series: dict[_Same, Record] = {}
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
                self._on_fate(EventFate.DROPPED)
            self._waiting.clear()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended  # a bug of ours; being cancelled is no exception of that kind

    def tell(self, announcement: Announcement) -> None:
        """Note it. Never waits, never fails."""
        if self._closing:
            self._on_fate(EventFate.DROPPED)
            return
        now = self._clock.now()
        same = (announcement.about, announcement.reason, announcement.note)
        waiting = self._waiting.get(same)
        if waiting is not None:
            self._waiting[same] = replace(waiting, count=waiting.count + 1, last=now)
            return
        if len(self._waiting) >= self._pace.most_waiting:
            del self._waiting[next(iter(self._waiting))]
            self._on_fate(EventFate.DROPPED)
        self._waiting[same] = Record(name="", announcement=announcement, first=now, last=now)
        self._ring()

    def _ring(self) -> None:
        """Wake whoever may write now."""
        self._bell.set()
        if not self._reserves_stand_back():
            self._bell_of_reserves.set()

    def _reserves_stand_back(self) -> bool:
        """Whether more urgent writes come first. Whoever writes rings when done: this is asked again."""
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
        told = self._waiting.pop(same)
        self._being_written.add(same)
        try:
            fate = await self._try(same, told)
        finally:
            self._being_written.discard(same)
            if self._waiting or self._closing:
                self._ring()
        self._on_fate(fate)

    async def _try(self, same: _Same, told: Record) -> EventFate:
        for wait in (*self._pace.retries, None):
            try:
                return await self._put(same, told)
            except _TRANSIENT:
                if wait is None:
                    break
                await asyncio.sleep(wait)
            except errors.UllageError:
                break
        return EventFate.FAILED

    async def _put(self, same: _Same, told: Record) -> EventFate:
        there = self._in_series(same, told.last)
        if there is not None:
            again = replace(there, count=there.count + told.count, last=told.last)
            try:
                await self._writer.repeat(again)
            except errors.NotFound:
                del self._series[same]  # Events do not last for ever
            else:
                self._remember(same, again)
                return EventFate.REPEATED
        record = replace(told, name=self._name(told))
        with suppress(errors.AlreadyExists):  # then it is ours: written by an attempt whose answer was lost
            await self._writer.create(record)
        self._remember(same, record)
        return EventFate.CREATED

    def _in_series(self, same: _Same, now: Instant) -> Record | None:
        there = self._series.get(same)
        return there if there is not None and now - there.last <= self._pace.series else None

    def _remember(self, same: _Same, record: Record) -> None:
        """Keep it for its successors; forget those that are too old to have any, oldest first."""
        self._series.pop(same, None)
        self._series[same] = record
        while self._series:
            oldest = next(iter(self._series))
            if len(self._series) <= self._pace.most_series and self._in_series(oldest, record.last) is not None:
                break
            del self._series[oldest]

    def _name(self, record: Record) -> str:
        """One of its own, and always the same one: an attempt made twice makes one Event."""
        about = record.announcement.about
        parts = (self._instance, about.uid, record.announcement.reason, record.announcement.note, repr(record.first))
        digest = hashlib.sha256("\0".join((str(about.key), about.kind, *parts)).encode()).hexdigest()[:_DIGEST_LENGTH]
        return f"{about.key.name[: _LONGEST_NAME - _DIGEST_LENGTH - 1].rstrip('-.')}.{digest}"
