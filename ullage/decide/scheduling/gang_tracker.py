"""GangTracker: how long each gang has been pending or partly placed, and its next deadline. Pure."""

import heapq
import math
from dataclasses import dataclass

from ullage.decide.gang.placement import GangRequest
from ullage.decide.gang.timeout import (
    DEFAULT_TIMEOUT,
    EvictPartialGang,
    Fate,
    GangBackoff,
    GangBacksOff,
    GangKeepsTrying,
    GangProgress,
    gang_fate,
)
from ullage.model.fact_event import ObjectKey
from ullage.model.lifecycles import GANG, GangState
from ullage.model.units import Instant, Seconds, after


@dataclass(slots=True)
class _Record:
    first_seen: Instant
    waiting_since: Instant
    partly_since: Instant | None = None
    given_up: int = 0
    back_at: Instant = Instant(-math.inf)
    look_at: Instant = Instant(math.inf)


@dataclass(frozen=True, slots=True)
class GangInBackoff:
    """The gang's scheduling timeout ran out, and it is not tried before this instant."""

    until: Instant


class GangTracker:
    """Keeps state of gangs that their pods do not carry. After a restart every gang begins anew."""

    def __init__(self, pace: GangBackoff = GangBackoff()) -> None:  # noqa: B008 - frozen
        self._pace = pace
        self._records: dict[ObjectKey, _Record] = {}
        self._timers: list[tuple[Instant, ObjectKey]] = []
        self._now = Instant(0.0)
        """Latest time that was given."""

    @property
    def waiting(self) -> int:
        """Number of gangs that are not complete."""
        return len(self._records)

    def decide_fate(self, gang: GangRequest, *, now: Instant, timeout: Seconds | None) -> Fate | GangInBackoff:
        """Decide the gang's next step. Its back-off, if any, starts now."""
        self._follow(now)
        record = self._records.get(gang.key)
        if record is None:
            record = self._records[gang.key] = _Record(first_seen=now, waiting_since=now)
        bound = len(gang.bound)
        partly = 0 < bound < gang.min_member
        record.partly_since = (now if record.partly_since is None else record.partly_since) if partly else None
        if not bound and now < record.back_at:
            return GangInBackoff(record.back_at)
        fate = gang_fate(_facts(gang, record, timeout), now=now, pace=self._pace)
        state = GangState.PARTIAL if bound else GangState.WAITING
        if isinstance(fate, GangBacksOff):
            GANG.advance(str(gang.key), state, GangState.BACKING_OFF)
            record.given_up += 1
            record.back_at = record.waiting_since = fate.again_at
            self._look(gang.key, record, fate.again_at)
        elif isinstance(fate, GangKeepsTrying):
            self._look(gang.key, record, fate.until)
        elif isinstance(fate, EvictPartialGang):
            GANG.advance(str(gang.key), state, GangState.EVICTING)
            record.partly_since = now  # should an eviction be refused, it is tried again after another timeout
            self._look(gang.key, record, after(now, timeout or DEFAULT_TIMEOUT))
        return fate

    def waited(self, gang: ObjectKey, *, now: Instant) -> Seconds:
        """Seconds since the first of its pods was tried."""
        record = self._records.get(gang)
        return Seconds(0.0 if record is None else now - record.first_seen)

    def forget(self, gang: ObjectKey) -> None:
        """Drop the gang: it is complete, or gone. Idempotent."""
        self._records.pop(gang, None)

    def next_deadline(self) -> Instant | None:
        """Instant at which a gang has to be checked, with or without an event."""
        while self._timers:
            at, gang = self._timers[0]
            record = self._records.get(gang)
            if record is not None and record.look_at == at:
                return at
            heapq.heappop(self._timers)
        return None

    def due(self, *, now: Instant) -> list[ObjectKey]:
        """Gangs whose deadline has come; each is returned once."""
        self._follow(now)
        found: list[ObjectKey] = []
        while (at := self.next_deadline()) is not None and at <= now:
            _, gang = heapq.heappop(self._timers)
            self._records[gang].look_at = Instant(math.inf)
            found.append(gang)
        return found

    def _follow(self, now: Instant) -> None:
        """Move times with a clock that was set back: a back-off set by a clock an hour ahead would last an hour."""
        back, self._now = self._now - now, now
        if back <= 0:
            return
        for record in self._records.values():
            record.back_at, record.look_at = Instant(record.back_at - back), Instant(record.look_at - back)
            record.first_seen = min(record.first_seen, now)
            record.waiting_since = min(record.waiting_since, max(now, record.back_at))
            record.partly_since = None if record.partly_since is None else min(record.partly_since, now)
        self._timers = [(Instant(at - back), gang) for at, gang in self._timers]

    def _look(self, gang: ObjectKey, record: _Record, at: Instant) -> None:
        if record.look_at != at:
            record.look_at = at
            heapq.heappush(self._timers, (at, gang))


def _facts(gang: GangRequest, record: _Record, timeout: Seconds | None) -> GangProgress:
    return GangProgress(
        min_member=gang.min_member,
        bound=len(gang.bound),
        waiting_since=record.waiting_since,
        partly_since=record.partly_since,
        given_up=record.given_up,
        timeout=DEFAULT_TIMEOUT if timeout is None else timeout,
    )
