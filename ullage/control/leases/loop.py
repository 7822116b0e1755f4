"""Lease garbage collector: frees Leases of pods and nodes that are gone, and of binds that were never finished.

Several may run at once. The watch only says which Leases to judge. Each hold is judged again on a fresh read before it
is released, and the release has that read as its precondition.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from ullage.act.lease_release import LeaseReleaser
from ullage.clock import Clock
from ullage.decide.leases.release import (
    FenceThenRelease,
    KeepHold,
    KeepReason,
    LeaseGcPolicy,
    LeaseNodeFacts,
    ReleaseHold,
    ReleaseReason,
    decide_fenced,
    decide_hold,
)
from ullage.errors import ApiError, LeadershipLost
from ullage.kube.client.resources import GPU_NODE_STATUSES, LEASES, NODES, PODS
from ullage.kube.objects.policy import Lease
from ullage.kube.read.leases import OUR_LEASES, read_gpu_lease
from ullage.model.fact_event import FactEvent, ObjectKey
from ullage.model.lease import GpuLease, HolderPod, LeaseHold
from ullage.model.units import Instant, Milli, Seconds, after
from ullage.runtime import Pacing, Wakeup, run_reconciler, seconds_until
from ullage.state.deadlines import DeadlineQueue
from ullage.state.lease_index import LeaseIndex
from ullage.watch.informer import InformerSpec

T = TypeVar("T")

_NO_HOLDER = LeaseHold("", Milli(0))

SOURCES = frozenset(resource.id for resource in (PODS, NODES, LEASES, GPU_NODE_STATUSES))
"""Sources that must be synced before any Lease is judged."""


def gpu_leases(namespace: str) -> InformerSpec[Lease, GpuLease]:
    """Leases an informer has to follow for the LeaseGarbageCollector, beside pods, nodes and inventories."""
    return InformerSpec(LEASES, read_gpu_lease, namespace=namespace, selection=OUR_LEASES)


@dataclass(frozen=True, slots=True)
class LeaseGcLimits:
    """Limits of the LeaseGarbageCollector. Times in seconds."""

    at_once: int = 16
    """Leases judged at the same time."""
    retry: Seconds = Seconds(5.0)
    """Wait after the API failed, or another client wrote first."""
    recheck: Seconds = Seconds(15.0)
    """Wait after the watch and a fresh read differed."""


@dataclass(frozen=True, slots=True)
class LeaseReleased:
    """A hold that was released, for metrics and logs."""

    node: str
    device: int
    uid: str
    """Uid of the holder; empty for a Lease without one."""
    why: ReleaseReason
    instance: str = ""
    """UUID of the MIG instance; empty for a whole GPU or a share."""


@dataclass(frozen=True, slots=True)
class _FreshReads:
    """Fresh reads of one round. Pods and nodes that could not be read are missing."""

    pods: Mapping[str, HolderPod | None]
    """By the uid of the holder: the pod that has its name now."""
    nodes: Mapping[str, bool]
    """Nodes the watch says are gone; True if the node exists."""


class LeaseGarbageCollector:
    """LeaseGarbageCollector: feed `observe` with the events of informers, and `run` it."""

    pacing = Pacing()

    def __init__(
        self,
        releaser: LeaseReleaser,
        clock: Clock,
        *,
        policy: LeaseGcPolicy = LeaseGcPolicy(),  # noqa: B008 - frozen
        limits: LeaseGcLimits = LeaseGcLimits(),  # noqa: B008 - frozen
        on_released: Callable[[LeaseReleased], None] = lambda _: None,
    ) -> None:
        self._releaser = releaser
        self._clock = clock
        self._policy = policy
        self._limits = limits
        self._on_released = on_released
        self._index = LeaseIndex()
        self._wakeup = Wakeup()
        self._deadlines: DeadlineQueue[str] = DeadlineQueue()
        """Leases to be judged again without an event."""
        self._slots = asyncio.Semaphore(limits.at_once)

    @property
    def held(self) -> int:
        """Leases there are, as last observed."""
        return len(self._index)

    def observe(self, event: FactEvent[Any]) -> None:
        """Take in an event of an informer. Events of other sources are ignored."""
        self._index.apply(event, now=self._clock.now())
        if self._index.touched and self._index.synced >= SOURCES:
            self._wakeup.set()

    async def run(self) -> None:
        """Collect until cancelled."""
        await run_reconciler(self, self._wakeup, self._clock)

    def longest_wait(self) -> float | None:
        return seconds_until(self._deadlines.next_at(), self._clock.now())

    async def reconcile(self) -> bool:
        """Read the suspects afresh, and release what is over."""
        if self._index.synced >= SOURCES and (suspects := self._suspects()):
            await self._collect(suspects)
        return False

    def _suspects(self) -> dict[str, tuple[LeaseHold, ...]]:
        """Leases that, by the watch, have no holder or holds without a reason, with those holds."""
        now = self._clock.now()
        names = dict.fromkeys(self._index.take_touched())
        while (due := self._deadlines.take_due(now)) is not None:
            names[due] = None
        suspects = {}
        for name in names:
            lease = self._index.lease(name)
            if lease is None:
                continue
            holds = tuple(hold for hold in lease.holds if self._is_suspect(lease, hold, now))
            if holds or not lease.holds:
                suspects[name] = holds
        return suspects

    def _is_suspect(self, lease: GpuLease, hold: LeaseHold, now: float) -> bool:
        seen, pod = self._index.seen(lease, hold), self._index.holder(hold.uid)
        node_facts = LeaseNodeFacts(self._index.has_node(lease.node), self._index.inventory(lease.node))
        match decide_hold(seen, hold, pod, node_facts, now=Instant(now), policy=self._policy):
            case KeepHold(again_at=again_at):
                self._check_again(lease.name, again_at)
                return False
            case _:
                return True

    def _check_again(self, name: str, at: Instant | None) -> None:
        """Check the Lease again at this instant, or earlier if one of its other holds is due earlier."""
        if at is not None:
            planned = self._deadlines.due(name)
            self._deadlines.put(name, at if planned is None else min(at, planned))

    async def _collect(self, suspects: Mapping[str, tuple[LeaseHold, ...]]) -> None:
        """Read all suspects afresh, release what is over, and note when to judge the others again."""
        reads = await self._read(suspects)
        again_at = await self._each(suspects, lambda name: self._release(name, suspects[name], reads))
        later = after(self._clock.now(), self._limits.retry)
        for name in suspects:
            self._check_again(name, again_at.get(name, later))

    async def _each(self, names: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T]:
        """Ask about all of them, some at a time. Those that could not be asked about are left out."""
        answers: dict[str, T] = {}

        async def one(name: str) -> None:
            async with self._slots:
                with suppress(ApiError, LeadershipLost):
                    answers[name] = await ask(name)

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(one(name), name=f"collect {name}")
        return answers

    async def _read(self, suspects: Mapping[str, tuple[LeaseHold, ...]]) -> _FreshReads:
        """Fresh reads of the holders, and of nodes said to be gone: each once, however many GPUs they are about."""
        leases = [lease for name in suspects if (lease := self._index.lease(name)) is not None]
        places = {
            hold.uid: self._index.place_of(hold.uid) or lease.pod for lease in leases for hold in suspects[lease.name]
        }
        unknown = [uid for uid, place in places.items() if place is None]
        if unknown:
            # Holds older than our watch, of pods that are gone or that the watch has not delivered yet.
            found = await self._each(("all pods",), lambda _: self._releaser.find(unknown))
            places = {uid: place or found["all pods"].get(uid) for uid, place in places.items() if place or found}
        pods = await self._each(places, lambda uid: self._pod(places[uid]))
        gone = dict.fromkeys(lease.node for lease in leases if not self._index.has_node(lease.node))
        return _FreshReads(pods, await self._each(gone, self._releaser.node_exists))

    async def _pod(self, place: ObjectKey | None) -> HolderPod | None:
        return None if place is None else await self._releaser.pod(place)

    async def _release(self, name: str, holds: Collection[LeaseHold], reads: _FreshReads) -> Instant | None:
        """Judge the suspect holds of one Lease and release what is over. Returns the instant to judge it again."""
        lease = self._index.lease(name)
        if lease is not None and lease.shared:
            # Read before any fence: a share taken again behind it changes the Lease, and then nothing is released.
            lease = await self._releaser.lease(name)
        if lease is None:
            return None
        over: dict[LeaseHold, ReleaseReason] = {}
        again: list[Instant] = []
        for hold in lease.holds:
            if hold in holds:
                match await self._check_afresh(lease, hold, reads):
                    case ReleaseHold(why):
                        over[hold] = why
                    case KeepHold(again_at=again_at):
                        again.append(after(self._clock.now(), self._limits.recheck) if again_at is None else again_at)
        if not lease.holds:
            over[_NO_HOLDER] = ReleaseReason.NOBODY_HOLDS
        if over and not await self._releaser.let_go(lease, over):
            over = {}
            again.append(after(self._clock.now(), self._limits.retry))
        for hold, why in over.items():
            self._on_released(LeaseReleased(lease.node, lease.device, hold.uid, why, hold.instance))
        return min(again, default=None)

    async def _check_afresh(self, lease: GpuLease, hold: LeaseHold, reads: _FreshReads) -> KeepHold | ReleaseHold:
        unread = KeepHold(KeepReason.NOT_LOOKED_AT, Instant(self._clock.now() + self._limits.retry))
        exists = self._index.has_node(lease.node) or reads.nodes.get(lease.node)
        if hold.uid not in reads.pods or exists is None:
            return unread
        pod, node_facts = reads.pods[hold.uid], LeaseNodeFacts(exists, self._index.inventory(lease.node))
        seen = self._index.seen(lease, hold)
        found = decide_hold(seen, hold, pod, node_facts, now=self._clock.now(), policy=self._policy)
        if not isinstance(found, FenceThenRelease):
            return found
        if pod is None or (not lease.shared and await self._releaser.lease(lease.name) != lease):
            return unread  # written for the pod since: what the watch said was late
        fenced = await self._releaser.fence(pod)
        return decide_fenced(seen, hold, fenced, node_facts, now=self._clock.now(), policy=self._policy)
