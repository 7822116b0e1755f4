"""Informer: list and watch, kept up for ever. A resource becomes a cache of facts and a stream of events.

No change is lost or delivered twice, whatever the connection does. Each object is added once per uid. After a gap (410,
or garbage twice in a row) a list is compared with the cache, and only the differences are delivered. API errors never
end it and are always reported. An error out of `deliver` or `read` is a bug, and ends it.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ullage.clock import Clock, Instant
from ullage.errors import ApiError, Gone, TooManyRequests, Unreadable
from ullage.kube.client.api import EVERYTHING, KubeApi, ListSelector, WatchEvent, WatchEventType
from ullage.kube.client.resource import Resource
from ullage.kube.client.watch_decoder import closed_after
from ullage.model.fact_event import FactEvent, ObjectKey, Synced
from ullage.watch.backoff import JitteredBackoff
from ullage.watch.informer_cache import InformerCache, Version, is_later, version_of
from ullage.watch.trouble import TroubleLog

T = TypeVar("T")
F = TypeVar("F")

_PATIENCE_WITH_PAGES = 2
_TOLD_AT_A_TIME = 500


@dataclass(frozen=True, slots=True)
class InformerTiming:
    """Timing of an informer, in seconds."""

    resync: float = 3600.0
    """A whole list this often, in case an event was lost where we cannot see it; a tenth more or less by chance."""
    quiet: float = 180.0
    """A watch silent for so long is taken for dead: API servers send a bookmark about every minute."""
    healthy: float = 5.0
    """A watch that lasted so long, or said anything at all, was a good one: the next failure waits briefly again."""
    first_wait: float = 0.4
    longest_wait: float = 15.0


@dataclass(frozen=True, slots=True)
class InformerSpec(Generic[T, F]):
    """Objects to follow, and the fact kept of each. `read` may raise Unreadable for an object that makes no sense."""

    resource: Resource[T]
    read: Callable[[T], F]
    namespace: str = ""
    selection: ListSelector = EVERYTHING
    chunk: int = 500
    pace: InformerTiming = InformerTiming()
    observed: Callable[[F | None, F, Instant], F] = lambda _old, new, _now: new
    """Returns the fact to keep, from the fact kept before, the new one and the time: for timestamps by other clocks."""
    at_hand: bool = False
    """Lists come from the server's memory, in one piece and never older than what was delivered: for clients that
    are many and want little each. A consistent list may cost a scan of all objects."""


@dataclass(slots=True)
class InformerCounts:
    """Counts since the start, for metrics."""

    events: int = 0
    """Events delivered."""
    lines: int = 0
    """Watch lines received, bookmarks included."""
    lists: int = 0
    resumes: int = 0
    """Watches that went on where the one before ended."""
    gaps: int = 0
    """Times the place where the last watch ended was no longer known to the server."""
    silences: int = 0
    """Watches given up because nothing was received."""
    failures: int = 0
    unreadable: int = 0
    """Objects `read` could make nothing of."""


@dataclass(frozen=True, slots=True)
class InformerHealth:
    """Health of an informer."""

    synced: bool
    last_contact: Instant | None
    """Time of the server's last event, bookmark or list."""
    lag: float | None
    """Seconds since then. A healthy watch is never silent for much longer than a minute."""
    trouble: ApiError | None
    """Error that keeps it from watching now; None while it watches."""


class Informer(Generic[T, F]):
    """Keeps `facts` equal to what the server holds, and delivers every difference once, in order."""

    def __init__(
        self,
        api: KubeApi,
        interest: InformerSpec[T, F],
        deliver: Callable[[FactEvent[F]], None],
        *,
        rng: random.Random,
        clock: Clock,
        on_trouble: Callable[[ApiError], None] | None = None,
    ) -> None:
        """`on_trouble` gets every failure; without it, each kind of trouble is logged once."""
        self._api = api
        self._interest = interest
        self._deliver = deliver
        self._rng = rng
        self._clock = clock
        self._troubles = TroubleLog(interest.resource.id)
        self._on_trouble = self._troubles.failed if on_trouble is None else on_trouble
        self._cache: InformerCache[T, F] = InformerCache(interest.read, self._unreadable, self._observed)
        self._backoff = JitteredBackoff(rng, first=interest.pace.first_wait, longest=interest.pace.longest_wait)
        self._position = ""
        self._newest = "0"
        """Latest resourceVersion ever received."""
        self._asked_at_hand = False
        """The list before was asked for from memory, not older than that, and was not given."""
        self._resync_at = 0.0
        self._torn_lists = 0
        self._watching_since: float | None = None
        self._lines_before = 0
        self._synced = asyncio.Event()
        self._last_contact: Instant | None = None
        self._trouble: ApiError | None = None
        self.counts = InformerCounts()

    @property
    def facts(self) -> Mapping[ObjectKey, F]:
        """Known facts by key. A live view; do not rely on it across an await."""
        return self._cache.facts

    @property
    def health(self) -> InformerHealth:
        lag = None if self._last_contact is None else self._clock.now() - self._last_contact
        return InformerHealth(self._synced.is_set(), self._last_contact, lag, self._trouble)

    @property
    def source(self) -> str:
        """The id of the resource listened to."""
        return self._interest.resource.id

    async def wait_synced(self) -> None:
        """Wait until the first list has been delivered."""
        await self._synced.wait()

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                await self._listen()
                wait = self._wait_after_end()
            except ApiError as error:
                wait = self._wait_after(error)
            await asyncio.sleep(wait)

    async def _listen(self) -> None:
        """Run one watch, after a list where one is needed."""
        self._watching_since = None
        if not self._position or self._resync_due():
            await self._list()
        else:
            self.counts.resumes += 1
        self._watching_since, self._lines_before = self._clock.steady(), self.counts.lines
        await self._watch()

    async def _list(self) -> None:
        """Take in a list, page by page, and deliver what it changes.

        Consistent, not `resourceVersion=0`: a list from a lagging server's memory may be older than what was delivered
        already, and servers do not page such lists. A consistent list cannot go back in time. A list `at_hand` cannot
        either, as it is not older than what was received: only the first takes what there is.
        """
        what = self._interest
        listing = self._cache.listing()
        position = ""
        # A list torn twice, because its moment was compacted away between two pages, is asked for in one piece.
        chunk = what.chunk if self._torn_lists < _PATIENCE_WITH_PAGES else 0
        # A server restored from a backup does not know the version received last: then it is asked without one.
        at_hand, self._asked_at_hand = what.at_hand and not self._asked_at_hand, what.at_hand and self._newest != "0"
        pages = self._api.pages(
            what.resource,
            what.namespace,
            selection=what.selection,
            chunk=0 if at_hand else chunk,
            at_least=self._newest if at_hand else None,
        )
        async with closed_after(pages):
            async for page in pages:
                for thing in page.items:
                    listing.add(thing)
                position = page.resource_version
        for number, event in enumerate(listing.finish(), start=1):
            self._deliver_one(event)
            if number % _TOLD_AT_A_TIME == 0:
                await asyncio.sleep(0)
        self._position, self._torn_lists = position, 0
        self._newest, self._asked_at_hand = position or self._newest, False
        self._resync_at = self._clock.steady() + what.pace.resync * self._rng.uniform(0.9, 1.1)
        self.counts.lists += 1
        self._all_is_well()
        self._synced.set()
        self._deliver(Synced(self.source))

    async def _watch(self) -> None:
        """Listen from where we are until the server ends it, it falls silent, or a resync is due."""
        what, loop = self._interest, asyncio.get_running_loop()
        since = version_of(self._position)
        watch = self._api.watch(what.resource, what.namespace, since=self._position, selection=what.selection)
        try:
            async with asyncio.timeout(self._patience()) as limit, closed_after(watch):
                async for batch in watch:
                    self._take_in(batch, since)
                    patience = self._patience()
                    limit.reschedule(None if patience is None else loop.time() + patience)
        except TimeoutError:
            if not limit.expired():
                raise
            self.counts.silences += not self._resync_due()

    def _take_in(self, batch: Sequence[WatchEvent[T]], since: Version) -> None:
        self._all_is_well()
        self.counts.lines += len(batch)
        for line in batch:
            if not is_later(version_of(line.resource_version), since):
                continue  # told before; a server that repeats itself must not bring back what is gone
            if line.object is not None:
                apply = self._cache.remove if line.change is WatchEventType.DELETED else self._cache.put
                for event in apply(line.object):
                    self._deliver_one(event)
            self._position = line.resource_version or self._position
            self._newest = self._position or self._newest

    def _observed(self, old: F | None, new: F) -> F:
        return self._interest.observed(old, new, self._clock.now())

    def _deliver_one(self, event: FactEvent[F]) -> None:
        self.counts.events += 1
        self._deliver(event)

    def _patience(self) -> float | None:
        """Seconds of silence until it is asked again; None where nothing can be lost."""
        if self._api.lossless:
            return None
        return max(0.0, min(self._interest.pace.quiet, self._resync_at - self._clock.steady()))

    def _resync_due(self) -> bool:
        return not self._api.lossless and self._clock.steady() >= self._resync_at

    def _all_is_well(self) -> None:
        self._last_contact = self._clock.now()
        self._trouble = None
        self._troubles.well()

    def _held(self) -> bool:
        """True if the last watch lasted `healthy` seconds, or until a resync was due."""
        if self._watching_since is None:
            return False
        return self._clock.steady() - self._watching_since >= self._interest.pace.healthy or self._resync_due()

    def _was_good(self) -> bool:
        """True if the last watch delivered a line, or lasted `healthy` seconds."""
        return self._held() or (self._watching_since is not None and self.counts.lines > self._lines_before)

    def _wait_after_end(self) -> float:
        """The server ended a watch without a complaint, as it does every few minutes; not if it does so at once."""
        if self._was_good():
            self._backoff.reset()
        return 0.0 if self._held() else self._backoff.next()

    def _wait_after(self, error: ApiError) -> float:
        """Record the error and return the seconds to wait before the next attempt."""
        good = self._was_good()
        # A gap costs the server a whole list: watches that soon end in one are not good, whatever they said before.
        if self._held() if isinstance(error, Gone) else good:
            self._backoff.reset()
        match error:
            case Gone() if self._position:
                self._position = ""
                self.counts.gaps += 1
                return 0.0 if self._held() else self._backoff.next()
            case Gone():
                self._torn_lists += 1
            case Unreadable() if not good:
                self._position = ""
        self.counts.failures += 1
        self._trouble = error
        self._on_trouble(error)
        return self._backoff.next(error.retry_after if isinstance(error, TooManyRequests) else None)

    def _unreadable(self, key: ObjectKey, error: Unreadable) -> None:
        self.counts.unreadable += 1
        self._on_trouble(Unreadable(f"{self.source} {key}: {error.message}"))


async def run_all(*informers: Informer[Any, Any]) -> None:
    """Run them side by side until cancelled. A bug in one ends all."""
    async with asyncio.TaskGroup() as group:
        for informer in informers:
            group.create_task(informer.run(), name=f"informer of {informer.source}")


async def wait_all_synced(*informers: Informer[Any, Any]) -> None:
    """Wait until the first list of each has been delivered."""
    for informer in informers:
        await informer.wait_synced()
