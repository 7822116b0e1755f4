"""List and watch, kept up for ever: a resource becomes a cache of facts and a stream of events.

Nothing is lost and nothing is told twice, whatever the connection does. Each object is told as new once per uid; after
a gap (410, or garbage twice in a row) a list is compared with the cache, and only the differences are told. Trouble
never ends it and never stays unsaid. An error out of `deliver` or `read` is a bug, and ends it.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ullage.clock import Clock, Instant
from ullage.errors import ApiError, Gone, TooManyRequests, Unreadable
from ullage.kube.api import EVERYTHING, Change, KubeApi, Selection, WatchEvent
from ullage.kube.resource import Resource
from ullage.kube.watching import closed_after
from ullage.model.event import Event, ObjectKey, Synced
from ullage.watch.backoff import Backoff
from ullage.watch.cache import Cache, Version, is_later, version_of

T = TypeVar("T")
F = TypeVar("F")

_PATIENCE_WITH_PAGES = 2
_TOLD_AT_A_TIME = 500


@dataclass(frozen=True, slots=True)
class Pace:
    """How often an informer does what it does without being told to. All in seconds."""

    resync: float = 3600.0
    """A whole list this often, in case an event was lost where we cannot see it; a tenth more or less by chance."""
    quiet: float = 180.0
    """A watch silent for so long is taken for dead: API servers send a bookmark about every minute."""
    healthy: float = 5.0
    """A watch that lasted so long, or said anything at all, was a good one: the next failure waits briefly again."""
    first_wait: float = 0.4
    longest_wait: float = 15.0


@dataclass(frozen=True, slots=True)
class Interest(Generic[T, F]):
    """Which objects, and what is kept of each. `read` may raise Unreadable for an object that makes no sense."""

    resource: Resource[T]
    read: Callable[[T], F]
    namespace: str = ""
    selection: Selection = EVERYTHING
    chunk: int = 500
    pace: Pace = Pace()


@dataclass(slots=True)
class Counts:
    """What happened so far, for metrics."""

    events: int = 0
    """Events delivered."""
    lines: int = 0
    """Lines heard in watches, bookmarks included."""
    lists: int = 0
    resumes: int = 0
    """Watches that went on where the one before ended."""
    gaps: int = 0
    """Times the place where the last watch ended was no longer known to the server."""
    silences: int = 0
    """Watches given up because nothing was heard."""
    failures: int = 0
    unreadable: int = 0
    """Objects `read` could make nothing of."""


@dataclass(frozen=True, slots=True)
class Health:
    """How an informer is doing."""

    synced: bool
    heard: Instant | None
    """When the server last said something: an event, a bookmark, a list."""
    lag: float | None
    """Seconds since then. A healthy watch is never silent for much longer than a minute."""
    trouble: ApiError | None
    """Why it is not listening now; None while all is well."""


class Informer(Generic[T, F]):
    """Keeps `facts` equal to what the server holds, and delivers every difference once, in order."""

    def __init__(
        self,
        api: KubeApi,
        interest: Interest[T, F],
        deliver: Callable[[Event[F]], None],
        *,
        rng: random.Random,
        clock: Clock,
        on_trouble: Callable[[ApiError], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._interest = interest
        self._deliver = deliver
        self._rng = rng
        self._clock = clock
        self._on_trouble = on_trouble
        self._cache: Cache[T, F] = Cache(interest.read, self._unreadable)
        self._backoff = Backoff(rng, first=interest.pace.first_wait, longest=interest.pace.longest_wait)
        self._position = ""
        self._resync_at = 0.0
        self._torn_lists = 0
        self._watching_since: float | None = None
        self._lines_before = 0
        self._synced = asyncio.Event()
        self._heard: Instant | None = None
        self._trouble: ApiError | None = None
        self.counts = Counts()

    @property
    def facts(self) -> Mapping[ObjectKey, F]:
        """What is known, by key. A live view; do not keep it across an await while counting on it."""
        return self._cache.facts

    @property
    def health(self) -> Health:
        lag = None if self._heard is None else self._clock.now() - self._heard
        return Health(self._synced.is_set(), self._heard, lag, self._trouble)

    @property
    def source(self) -> str:
        """The id of the resource listened to."""
        return self._interest.resource.id

    async def wait_synced(self) -> None:
        """Until the first list has been delivered."""
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
        """One watch, after a list where one is needed."""
        self._watching_since = None
        if not self._position or self._resync_due():
            await self._list()
        else:
            self.counts.resumes += 1
        self._watching_since, self._lines_before = self._clock.steady(), self.counts.lines
        await self._watch()

    async def _list(self) -> None:
        """Take in a consistent list, page by page, and tell what it changes.

        Consistent, not `resourceVersion=0`: a list from a lagging server's memory may be older than what was told
        already, and servers do not page such lists. With this one going back in time is impossible.
        """
        what = self._interest
        listing = self._cache.listing()
        position = ""
        # A list torn twice, because its moment was compacted away between two pages, is asked for in one piece.
        chunk = what.chunk if self._torn_lists < _PATIENCE_WITH_PAGES else 0
        pages = self._api.pages(what.resource, what.namespace, selection=what.selection, chunk=chunk)
        async with closed_after(pages):
            async for page in pages:
                for thing in page.items:
                    listing.add(thing)
                position = page.resource_version
        for number, event in enumerate(listing.finish(), start=1):
            self._tell(event)
            if number % _TOLD_AT_A_TIME == 0:
                await asyncio.sleep(0)
        self._position, self._torn_lists = position, 0
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
                news = self._cache.remove if line.change is Change.DELETED else self._cache.put
                for event in news(line.object):
                    self._tell(event)
            self._position = line.resource_version or self._position

    def _tell(self, event: Event[F]) -> None:
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
        self._heard = self._clock.now()
        self._trouble = None

    def _held(self) -> bool:
        """Whether the last watch went on for a while, or until we ended it ourselves."""
        if self._watching_since is None:
            return False
        return self._clock.steady() - self._watching_since >= self._interest.pace.healthy or self._resync_due()

    def _was_good(self) -> bool:
        """Whether the last watch said anything, or at least held for a while."""
        return self._held() or (self._watching_since is not None and self.counts.lines > self._lines_before)

    def _wait_after_end(self) -> float:
        """The server ended a watch without a complaint, as it does every few minutes; not if it does so at once."""
        if self._was_good():
            self._backoff.reset()
        return 0.0 if self._held() else self._backoff.next()

    def _wait_after(self, error: ApiError) -> float:
        """Note what went wrong; how long to wait before the next attempt."""
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
    """Until the first list of each has been delivered."""
    for informer in informers:
        await informer.wait_synced()
