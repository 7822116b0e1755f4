"""Pods that wait to be placed, in the order they are tried: priority first, then age.

A refused pod sleeps until news that can change its verdict (`model.verdict.Wake`), then waits out a back-off that
doubles with every refusal. Nothing sleeps for ever: after `longest_sleep` a pod is tried again, in case news was lost.
Pure: time is an argument, and `next_deadline` says when to come back without news.
"""

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ullage.model.event import ObjectKey
from ullage.model.verdict import Wake

_MOST_DOUBLINGS = 32
"""A pod may be refused for weeks."""


@dataclass(frozen=True, slots=True)
class QueuePace:
    """Seconds. The defaults are kube-scheduler's."""

    first_backoff: float = 1.0
    longest_backoff: float = 10.0
    longest_sleep: float = 300.0

    def backoff(self, refusals: int) -> float:
        return min(self.longest_backoff, self.first_backoff * 2.0 ** min(max(refusals - 1, 0), _MOST_DOUBLINGS))


class Place(StrEnum):
    """Where in the queue a pod is."""

    ACTIVE = "active"
    BACKING_OFF = "backing-off"
    ASLEEP = "asleep"
    OUT = "out"
    """Taken by `pop` and not yet put back: somebody is deciding on it."""


@dataclass(slots=True)
class _Waiting:
    key: ObjectKey
    priority: int
    since: float
    ticket: int
    place: Place = Place.ACTIVE
    refusals: int = 0
    refused_at: float = 0.0
    wakes_on: frozenset[Wake] = frozenset()
    heard: int = 0
    """How much news there had been when it was taken out: more since then may help it."""
    said: int | None = None
    """The same of everything that was heard, news or not."""


class SchedulingQueue:
    """The one queue of a scheduler."""

    def __init__(self, pace: QueuePace = QueuePace()) -> None:  # noqa: B008 - frozen
        self._pace = pace
        self._waiting: dict[ObjectKey, _Waiting] = {}
        self._active: list[tuple[int, float, int, ObjectKey]] = []
        self._timers: list[tuple[float, int, ObjectKey]] = []
        self._tickets = itertools.count()
        self._asleep: dict[Wake, dict[ObjectKey, _Waiting]] = {kind: {} for kind in Wake}
        """Who sleeps until such news: a burst of news must not look at everybody who waits."""
        self._news = 0
        self._said: int | None = None
        """How much was heard; None where nobody tells."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._waiting

    def place_of(self, key: ObjectKey) -> Place | None:
        found = self._waiting.get(key)
        return None if found is None else found.place

    def depth(self) -> dict[Place, int]:
        """How many are where."""
        counts = dict.fromkeys(Place, 0)
        for waiting in self._waiting.values():
            counts[waiting.place] += 1
        return counts

    def waited(self, key: ObjectKey, *, now: float) -> float:
        """Seconds since the pod joined."""
        return now - self._waiting[key].since

    def add(self, key: ObjectKey, *, priority: int, now: float) -> None:
        """A pod wants a place. One that waits already keeps its age; a changed priority counts from now on."""
        found = self._waiting.get(key)
        if found is None:
            self._waiting[key] = found = _Waiting(key, priority, now, next(self._tickets))
            self._activate(found)
        elif found.priority != priority:
            found.priority = priority
            if found.place is Place.ACTIVE:
                self._activate(found)

    def remove(self, key: ObjectKey) -> None:
        """It was placed, is gone, or is no longer ours. Idempotent."""
        found = self._waiting.pop(key, None)
        if found is not None:
            self._put(found, Place.OUT)

    def pop(self, *, now: float) -> ObjectKey | None:
        """The next pod to decide on. It is out until it is refused, put back, or removed."""
        self._ring(now)
        while self._active:
            _, _, ticket, key = heapq.heappop(self._active)
            found = self._waiting.get(key)
            if found is not None and found.place is Place.ACTIVE and found.ticket == ticket:
                self._take_out(found)
                return key
        return None

    def refuse(self, key: ObjectKey, wakes_on: Iterable[Wake], *, now: float) -> None:
        """No place for it now. News that came while it was decided on counts."""
        found = self._waiting.get(key)
        if found is None:
            return
        if found.place is not Place.OUT:
            self._take_out(found)
        found.refusals += 1
        found.refused_at = now
        found.wakes_on = frozenset(wakes_on)
        if found.heard != self._news:
            self._back_off(found, now)
        else:
            self._to_sleep(found, now)

    def retry(self, key: ObjectKey, *, now: float) -> None:
        """It had a place and lost it (a conflict, an API error): try again after a back-off, whatever the news."""
        found = self._waiting.get(key)
        if found is not None:
            found.refusals += 1
            found.refused_at = now
            self._back_off(found, now)

    def reconsider(self, key: ObjectKey, *, now: float) -> None:
        """The pod itself asks for something else now: whatever it was refused for may no longer hold."""
        found = self._waiting.get(key)
        if found is not None and found.place is Place.OUT:
            found.heard = -1
        elif found is not None and found.place is Place.ASLEEP:
            self._back_off(found, now)

    def wake(self, news: Wake, *, now: float) -> None:
        """Something happened: everybody it could help is tried again, after their back-off."""
        self._news += 1
        for found in tuple(self._asleep[news].values()):
            self._back_off(found, now)

    def note(self) -> None:
        """Something was heard, of whatever kind. Who sleeps is not tried again for nothing where this is told."""
        self._said = (self._said or 0) + 1

    def next_deadline(self) -> float | None:
        """When somebody's back-off or sleep ends, if anybody waits for that."""
        while self._timers:
            moment, ticket, key = self._timers[0]
            found = self._waiting.get(key)
            asleep = found is not None and found.place in (Place.BACKING_OFF, Place.ASLEEP)
            if found is not None and asleep and found.ticket == ticket:
                return moment
            heapq.heappop(self._timers)
        return None

    def _activate(self, found: _Waiting) -> None:
        self._put(found, Place.ACTIVE)
        found.ticket = next(self._tickets)
        # Age decides before the ticket does: who waited longest goes first, however often it was refused.
        heapq.heappush(self._active, (-found.priority, found.since, found.ticket, found.key))

    def _back_off(self, found: _Waiting, now: float) -> None:
        until = found.refused_at + self._pace.backoff(found.refusals)
        if until <= now:
            self._activate(found)
        else:
            self._set_timer(found, Place.BACKING_OFF, until)

    def _to_sleep(self, found: _Waiting, now: float) -> None:
        self._set_timer(found, Place.ASLEEP, now + self._pace.longest_sleep)

    def _set_timer(self, found: _Waiting, place: Place, until: float) -> None:
        self._put(found, place)
        found.ticket = next(self._tickets)
        heapq.heappush(self._timers, (until, found.ticket, found.key))

    def _take_out(self, found: _Waiting) -> None:
        self._put(found, Place.OUT)
        found.heard = self._news
        found.said = self._said

    def _put(self, found: _Waiting, place: Place) -> None:
        if found.place is Place.ASLEEP:
            for kind in found.wakes_on:
                self._asleep[kind].pop(found.key, None)
        found.place = place
        if place is Place.ASLEEP:
            for kind in found.wakes_on:
                self._asleep[kind][found.key] = found

    def _ring(self, now: float) -> None:
        """Whose time has come is active again."""
        while (moment := self.next_deadline()) is not None and moment <= now:
            _, _, key = heapq.heappop(self._timers)
            found = self._waiting[key]
            if found.place is Place.ASLEEP and self._said is not None and found.said == self._said:
                self._to_sleep(found, now)  # nobody has said a word since: it would be refused just the same
            else:
                self._activate(found)
