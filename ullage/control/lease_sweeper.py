"""Frees the Leases of pods and nodes that are gone, and of placements nobody finished. Several may run at once.

The watch only says where to look. Each hold is judged again on a fresh read before it is let go, and let go only as it
was looked at. Wakes on news and at deadlines; between them it does nothing.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from ullage.act.sweep import OUR_LEASES, Broom, read_gpu_lease
from ullage.clock import Clock
from ullage.decide.sweep import FenceThenFree, Free, Freeing, Ground, Keep, Keeping, SweepPolicy, judge, judge_fenced
from ullage.errors import ApiError, LeadershipLost
from ullage.kube.objects.policy import Lease
from ullage.kube.resources import GPU_NODE_STATUSES, LEASES, NODES, PODS
from ullage.model.event import Event, ObjectKey
from ullage.model.lease import GpuLease, Hold, HolderPod
from ullage.state.holds import HoldBook
from ullage.watch.informer import Interest

T = TypeVar("T")

SOURCES = frozenset(resource.id for resource in (PODS, NODES, LEASES, GPU_NODE_STATUSES))
"""What has to be heard of before anything is judged."""


def gpu_leases(namespace: str) -> Interest[Lease, GpuLease]:
    """What an informer has to listen to for the sweeper, beside pods, nodes and inventories."""
    return Interest(LEASES, read_gpu_lease, namespace=namespace, selection=OUR_LEASES)


@dataclass(frozen=True, slots=True)
class SweepPace:
    """How hard it works. Times in seconds."""

    at_once: int = 16
    """Leases looked at at the same time."""
    retry: float = 5.0
    """After the API failed, or somebody wrote first."""
    recheck: float = 15.0
    """Where the watch says something else than a fresh read."""


@dataclass(frozen=True, slots=True)
class Freed:
    """A hold that was let go, for metrics and logs."""

    node: str
    device: int
    uid: str
    why: Freeing


@dataclass(frozen=True, slots=True)
class _Look:
    """What fresh reads say in one round. What is not in here could not be read."""

    pods: Mapping[str, HolderPod | None]
    """By the uid of the holder: whatever has its name now."""
    nodes: Mapping[str, bool]
    """Whether the nodes exist which the watch says are gone."""


class LeaseSweeper:
    """Feed `hear` with the events of informers, and `run` it."""

    def __init__(
        self,
        broom: Broom,
        clock: Clock,
        *,
        policy: SweepPolicy = SweepPolicy(),  # noqa: B008 - frozen
        pace: SweepPace = SweepPace(),  # noqa: B008 - frozen
        on_freed: Callable[[Freed], None] = lambda _: None,
    ) -> None:
        self._broom = broom
        self._clock = clock
        self._policy = policy
        self._pace = pace
        self._on_freed = on_freed
        self._book = HoldBook()
        self._news = asyncio.Event()
        self._deadlines: list[tuple[float, str]] = []
        self._hands = asyncio.Semaphore(pace.at_once)

    @property
    def held(self) -> int:
        """Leases there are, as last heard."""
        return len(self._book)

    def hear(self, event: Event[Any]) -> None:
        """What an informer delivers. Events of other sources do no harm."""
        self._book.apply(event, now=self._clock.now())
        if self._book.touched and self._book.synced >= SOURCES:
            self._news.set()

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await self._wait()
            suspects = self._suspects()
            if suspects:
                await self._sweep(suspects)

    async def _wait(self) -> None:
        """Until there is news or a deadline has come."""
        wait = max(0.0, self._deadlines[0][0] - self._clock.now()) if self._deadlines else None
        try:
            async with asyncio.timeout(wait):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()

    def _suspects(self) -> dict[str, tuple[str, ...]]:
        """By what the watch says: Leases with holders who seem to have no right to them any more."""
        now = self._clock.now()
        names = dict.fromkeys(self._book.take_touched())
        while self._deadlines and self._deadlines[0][0] <= now:
            names[heapq.heappop(self._deadlines)[1]] = None
        suspects = {}
        for name in names:
            lease = self._book.lease(name)
            uids = () if lease is None else tuple(h.uid for h in lease.holds if self._is_suspect(lease, h, now))
            if uids:
                suspects[name] = uids
        return suspects

    def _is_suspect(self, lease: GpuLease, hold: Hold, now: float) -> bool:
        seen, pod = self._book.seen(lease, hold), self._book.holder(hold.uid)
        ground = Ground(self._book.has_node(lease.node), self._book.inventory(lease.node))
        match judge(seen, hold, pod, ground, now=now, policy=self._policy):
            case Keep(again_at=again_at):
                self._look_again(lease.name, again_at)
                return False
            case _:
                return True

    def _look_again(self, name: str, at: float | None) -> None:
        if at is not None:
            heapq.heappush(self._deadlines, (at, name))

    async def _sweep(self, suspects: Mapping[str, tuple[str, ...]]) -> None:
        """Look at all of them afresh, let go of what is over, and note when to look at the others again."""
        look = await self._look(suspects)
        looked_at = await self._each(suspects, lambda name: self._tend(name, suspects[name], look))
        later = self._clock.now() + self._pace.retry
        for name in suspects:
            self._look_again(name, looked_at.get(name, later))

    async def _each(self, names: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T]:
        """Ask about all of them, some at a time. Those that could not be asked about are left out."""
        answers: dict[str, T] = {}

        async def one(name: str) -> None:
            async with self._hands:
                with suppress(ApiError, LeadershipLost):
                    answers[name] = await ask(name)

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(one(name), name=f"sweep {name}")
        return answers

    async def _look(self, suspects: Mapping[str, tuple[str, ...]]) -> _Look:
        """Fresh reads of the holders, and of nodes said to be gone: each once, however many GPUs they are about."""
        leases = [lease for name in suspects if (lease := self._book.lease(name)) is not None]
        places = {uid: self._book.place_of(uid) or lease.pod for lease in leases for uid in suspects[lease.name]}
        strangers = [uid for uid, place in places.items() if place is None]
        if strangers:
            # Shares taken before we listened, by pods that are gone or that the watch has not told us of yet.
            found = await self._each(("all pods",), lambda _: self._broom.find(strangers))
            places = {uid: place or found["all pods"].get(uid) for uid, place in places.items() if place or found}
        pods = await self._each(places, lambda uid: self._pod(places[uid]))
        gone = dict.fromkeys(lease.node for lease in leases if not self._book.has_node(lease.node))
        return _Look(pods, await self._each(gone, self._broom.node_exists))

    async def _pod(self, place: ObjectKey | None) -> HolderPod | None:
        return None if place is None else await self._broom.pod(place)

    async def _tend(self, name: str, uids: Collection[str], look: _Look) -> float | None:
        """Judge the suspects of one Lease and let go of what is over. Returns when to look again."""
        lease = self._book.lease(name)
        if lease is not None and lease.shared:
            # Read before any fence: a share taken again behind it changes the Lease, and then nothing is let go.
            lease = await self._broom.lease(name)
        if lease is None:
            return None
        over: dict[str, Freeing] = {}
        again: list[float] = []
        for hold in lease.holds:
            if hold.uid in uids:
                match await self._judge_afresh(lease, hold, look):
                    case Free(why):
                        over[hold.uid] = why
                    case Keep(again_at=again_at):
                        again.append(self._clock.now() + self._pace.recheck if again_at is None else again_at)
        if over and not await self._broom.let_go(lease, over):
            over = {}
            again.append(self._clock.now() + self._pace.retry)
        for uid, why in over.items():
            self._on_freed(Freed(lease.node, lease.device, uid, why))
        return min(again, default=None)

    async def _judge_afresh(self, lease: GpuLease, hold: Hold, look: _Look) -> Keep | Free:
        unread = Keep(Keeping.NOT_LOOKED_AT, self._clock.now() + self._pace.retry)
        exists = self._book.has_node(lease.node) or look.nodes.get(lease.node)
        if hold.uid not in look.pods or exists is None:
            return unread
        pod, ground = look.pods[hold.uid], Ground(exists, self._book.inventory(lease.node))
        seen = self._book.seen(lease, hold)
        found = judge(seen, hold, pod, ground, now=self._clock.now(), policy=self._policy)
        if not isinstance(found, FenceThenFree):
            return found
        if pod is None or (not lease.shared and await self._broom.lease(lease.name) != lease):
            return unread  # written for the pod since: what the watch said was late
        fenced = await self._broom.fence(pod)
        return judge_fenced(seen, hold, fenced, ground, now=self._clock.now(), policy=self._policy)
