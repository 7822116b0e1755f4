"""Scheduling queue: pending pods in the order they are tried, by priority, then age.

A refused pod is unschedulable until a ClusterEvent that can change its verdict (`model.verdict`). Then it waits out a
back-off that doubles with every refusal. Room that the event made free is offered to it meanwhile (`overtaken`), before
any pod behind it. A pod that asks for something else is tried at once: another question was refused. After
`longest_sleep` every pod is tried again, in case an event was lost. Pure: time is an argument, and `next_deadline` is
the time to come back without an event.
"""

import heapq
import itertools
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from ullage.config.settings import SchedulingSettings
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant, Seconds
from ullage.model.verdict import ClusterEvent
from ullage.state.overtaken import Order, Overtaken

_MOST_DOUBLINGS = 32
"""A pod may be refused for weeks."""


class QueueState(StrEnum):
    """Part of the queue a pod is in."""

    ACTIVE = "active"
    BACKING_OFF = "backing-off"
    ASLEEP = "asleep"
    OUT = "out"
    """Taken by `pop` and not yet put back: a decision on it is under way."""


@dataclass(slots=True)
class _Waiting:
    key: ObjectKey
    priority: int
    since: Instant
    number: int
    """Tells apart pods that joined at the same instant."""
    ticket: int
    place: QueueState = QueueState.ACTIVE
    refusals: int = 0
    refused_at: Instant = Instant(0.0)
    wakes_on: frozenset[ClusterEvent] = frozenset()
    events_seen: int = 0
    """Number of ClusterEvents when the pod was taken out; a later one may help it."""
    said: int | None = None
    """Number of all events at that moment, of whatever kind."""
    kind: Hashable = None
    """Kind of the pod at its last refusal. Pods of one kind get one answer."""
    line: tuple[Hashable, Order] | None = None
    """Place in line while in back-off, if an event may have helped it."""
    asks_anew: bool = False
    """It asks for something else than when it was taken out: the answer under way does not count."""


class SchedulingQueue:
    """SchedulingQueue: all pending pods of one scheduler."""

    def __init__(self, settings: SchedulingSettings = SchedulingSettings()) -> None:  # noqa: B008 - frozen
        self._settings = settings
        self._waiting: dict[ObjectKey, _Waiting] = {}
        self._active: list[Order] = []
        self._timers: list[tuple[Instant, int, ObjectKey]] = []
        self._tickets = itertools.count()
        self._now = Instant(0.0)
        """Latest time that was given."""
        self._asleep: dict[ClusterEvent, dict[ObjectKey, _Waiting]] = {kind: {} for kind in ClusterEvent}
        """Unschedulable pods by the ClusterEvent they wait for, so that an event does not scan all pods."""
        self._overtaken = Overtaken()
        self._events = 0
        self._said: int | None = None
        """Number of events observed; None if `note` is never called."""

    def configure(self, settings: SchedulingSettings) -> None:
        """Take over changed settings. Timers that run already end as they were set."""
        self._settings = settings

    def backoff(self, refusals: int) -> Seconds:
        """Seconds of back-off after so many refusals in a row."""
        doubled = self._settings.initial_backoff * 2.0 ** min(max(refusals - 1, 0), _MOST_DOUBLINGS)
        return Seconds(min(self._settings.max_backoff, doubled))

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._waiting

    def place_of(self, key: ObjectKey) -> QueueState | None:
        found = self._waiting.get(key)
        return None if found is None else found.place

    def depth(self) -> dict[QueueState, int]:
        """Number of pods in each part of the queue."""
        counts = dict.fromkeys(QueueState, 0)
        for waiting in self._waiting.values():
            counts[waiting.place] += 1
        return counts

    def waited(self, key: ObjectKey, *, now: Instant) -> Seconds:
        """Seconds since the pod joined."""
        return Seconds(now - self._waiting[key].since)

    def add(self, key: ObjectKey, *, priority: int, now: Instant) -> None:
        """A pod wants a place. One that waits already keeps its age; a changed priority counts from now on."""
        found = self._waiting.get(key)
        if found is None:
            self._waiting[key] = found = _Waiting(key, priority, now, next(self._tickets), 0)
            self._activate(found)
        elif found.priority != priority:
            found.priority = priority
            if found.place is QueueState.ACTIVE:
                self._activate(found)

    def remove(self, key: ObjectKey) -> None:
        """Remove a pod that was placed, is gone, or belongs to another scheduler now. Idempotent."""
        found = self._waiting.pop(key, None)
        if found is not None:
            self._put(found, QueueState.OUT)

    def pop(self, *, now: Instant) -> ObjectKey | None:
        """The next pod to decide on. It is out until it is refused, put back, or removed."""
        self._ring(now)
        head = self._head()
        if head is None:
            return None
        heapq.heappop(self._active)
        self._take_out(self._waiting[head[-1]])
        return head[-1]

    def pop_overtaken(self, *, now: Instant) -> ObjectKey | None:
        """Take a pod in back-off that an event may have helped, ahead of the active queue. As with `pop`, it is out."""
        self._ring(now)
        key = self._overtaken.first(self._head())
        if key is not None:
            self._take_out(self._waiting[key])
        return key

    def put_back(self, key: ObjectKey, *, now: Instant, wakes_on: Iterable[ClusterEvent] | None = None) -> None:
        """Return a pod to its back-off after a try by `pop_overtaken` found no place.

        `wakes_on` are the events that would help it as things are; None if those of its refusal still would.
        """
        found = self._waiting.get(key)
        if found is not None and found.place is QueueState.OUT:
            if wakes_on is not None:
                found.wakes_on = frozenset(wakes_on)
            self._overtaken.tried()
            self._back_off(found, now)
            self._overtaken.in_vain(found.kind, found.wakes_on)

    def add_unschedulable(
        self, key: ObjectKey, wakes_on: Iterable[ClusterEvent], *, now: Instant, kind: Hashable = None
    ) -> None:
        """Put a refused pod back. Events that came while it was decided on count.

        `kind` stands for all pods that would be refused with it; one without is never tried before its back-off ends.
        """
        found = self._waiting.get(key)
        if found is None:
            return
        if found.place is not QueueState.OUT:
            self._take_out(found)
        if found.asks_anew:
            self._activate(found)
            return
        found.refusals += 1
        found.refused_at = now
        found.wakes_on, found.kind = frozenset(wakes_on), kind
        if found.events_seen != self._events:
            self._back_off(found, now)
        else:
            self._to_sleep(found, now)
            self._overtaken.in_vain(kind, found.wakes_on)

    def requeue(self, key: ObjectKey, *, now: Instant) -> None:
        """Retry a pod that lost its place (a conflict, an API error) after a back-off, whatever the events."""
        found = self._waiting.get(key)
        if found is not None and found.asks_anew:
            self._activate(found)
        elif found is not None:
            found.refusals += 1
            found.refused_at = now
            found.kind = None
            self._back_off(found, now)

    def postpone(self, key: ObjectKey, *, until: Instant) -> None:
        """Hold the pod back until this instant, whatever the events. That does not count as a refusal."""
        found = self._waiting.get(key)
        if found is not None:
            self._set_timer(found, QueueState.BACKING_OFF, until)

    def ask_anew(self, key: ObjectKey) -> None:
        """Try a pod that asks for something else, at once: refusals of what it asked for before do not count."""
        found = self._waiting.get(key)
        if found is None:
            return
        found.refusals = 0
        if found.place is QueueState.OUT:
            found.asks_anew = True
        elif found.place is not QueueState.ACTIVE:
            self._activate(found)

    def reconsider(self, key: ObjectKey, *, now: Instant) -> None:
        """Try the pod again after its back-off: the reasons of its refusal may no longer hold."""
        found = self._waiting.get(key)
        if found is not None and found.place is QueueState.OUT:
            found.events_seen = -1
        elif found is not None and found.place is QueueState.ASLEEP:
            self._back_off(found, now)

    def move_on(self, event: ClusterEvent, *, now: Instant) -> None:
        """Take in an event: every pod it could help is tried again after its back-off."""
        self._events += 1
        self._overtaken.count_event(event)
        for found in tuple(self._asleep[event].values()):
            self._back_off(found, now)

    def count_event(self) -> None:
        """Note an event of any kind. Once used, `longest_sleep` retries a pod only if there was an event since."""
        self._said = (self._said or 0) + 1

    def next_deadline(self) -> Instant | None:
        """Return the next instant at which a back-off or `longest_sleep` ends; None if no pod waits for one."""
        while self._timers:
            instant, ticket, key = self._timers[0]
            found = self._waiting.get(key)
            asleep = found is not None and found.place in (QueueState.BACKING_OFF, QueueState.ASLEEP)
            if found is not None and asleep and found.ticket == ticket:
                return instant
            heapq.heappop(self._timers)
        return None

    def _head(self) -> Order | None:
        """Return the head of the active queue; None if the queue is empty."""
        while self._active:
            _, _, ticket, key = self._active[0]
            found = self._waiting.get(key)
            if found is not None and found.place is QueueState.ACTIVE and found.ticket == ticket:
                return self._active[0]
            heapq.heappop(self._active)
        return None

    def _activate(self, found: _Waiting) -> None:
        self._put(found, QueueState.ACTIVE)
        found.ticket = next(self._tickets)
        # Age decides before the ticket does: the pod that waited longest goes first, however often it was refused.
        heapq.heappush(self._active, (-found.priority, found.since, found.ticket, found.key))

    def _back_off(self, found: _Waiting, now: Instant) -> None:
        until = min(found.refused_at, now) + self.backoff(found.refusals)
        if until <= now:
            self._activate(found)
        else:
            self._set_timer(found, QueueState.BACKING_OFF, Instant(until))
            if found.kind is not None:
                found.line = (found.kind, (-found.priority, found.since, found.number, found.key))
                self._overtaken.join(*found.line)

    def _to_sleep(self, found: _Waiting, now: Instant) -> None:
        self._set_timer(found, QueueState.ASLEEP, Instant(now + self._settings.max_unschedulable_duration))

    def _set_timer(self, found: _Waiting, place: QueueState, until: Instant) -> None:
        self._put(found, place)
        found.ticket = next(self._tickets)
        heapq.heappush(self._timers, (until, found.ticket, found.key))

    def _take_out(self, found: _Waiting) -> None:
        self._put(found, QueueState.OUT)
        found.asks_anew = False
        found.events_seen = self._events
        found.said = self._said

    def _put(self, found: _Waiting, place: QueueState) -> None:
        if found.place is QueueState.ASLEEP:
            for kind in found.wakes_on:
                self._asleep[kind].pop(found.key, None)
        if found.line is not None:
            self._overtaken.leave(*found.line)
            found.line = None
        found.place = place
        if place is QueueState.ASLEEP:
            for kind in found.wakes_on:
                self._asleep[kind][found.key] = found

    def _ring(self, now: Instant) -> None:
        """Make pods active whose back-off or `longest_sleep` has ended."""
        self._follow(now)
        while (instant := self.next_deadline()) is not None and instant <= now:
            _, _, key = heapq.heappop(self._timers)
            found = self._waiting[key]
            if found.place is QueueState.ASLEEP and self._said is not None and found.said == self._said:
                self._to_sleep(found, now)  # nobody has said a word since: it would be refused just the same
            else:
                self._activate(found)

    def _follow(self, now: Instant) -> None:
        """Move timers with a clock that was set back: one set by a clock an hour ahead would last an hour."""
        back, self._now = self._now - now, now
        if back > 0:
            self._timers = [(Instant(until - back), ticket, key) for until, ticket, key in self._timers]
