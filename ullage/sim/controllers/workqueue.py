"""WorkQueue: each key at most once, never with two workers at the same time, retried with growing back-off.

First come, first served; the order of events is the order of work, so equal runs work alike.
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from ullage.clock import Clock, Instant

K = TypeVar("K", bound=Hashable)

FIRST_RETRY_SECONDS = 0.005
LONGEST_RETRY_SECONDS = 60.0


class WorkQueue(Generic[K]):
    """Bound to the running loop; its timers pass as the loop's time does."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[K] = deque()
        self._queued: set[K] = set()
        self._in_hand: set[K] = set()
        self._again: dict[K, None] = {}
        self._timers: dict[K, tuple[Instant, asyncio.TimerHandle]] = {}
        self._failures: dict[K, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()

    def add(self, key: K) -> None:
        """Queue this key. A key in progress is queued again when its work is done."""
        if key in self._in_hand:
            self._again[key] = None
        elif key not in self._queued:
            self._queued.add(key)
            self._waiting.append(key)
            self._wake_one()

    def add_at(self, key: K, instant: Instant) -> None:
        """Work on this key at that moment at the latest."""
        planned = self._timers.get(key)
        if planned is not None:
            if planned[0] <= instant:
                return
            planned[1].cancel()
        delay = max(0.0, instant - self._clock.now())
        handle = asyncio.get_running_loop().call_later(delay, self._due, key)
        self._timers[key] = (instant, handle)

    def retry(self, key: K, at_least: float = 0.0) -> None:
        """Queue the key again after a back-off that doubles with every failure."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(FIRST_RETRY_SECONDS * 2 ** min(failures, 30), LONGEST_RETRY_SECONDS)
        self.add_at(key, Instant(self._clock.now() + max(delay, at_least)))

    def forget_failures(self, key: K) -> None:
        """The work succeeded."""
        self._failures.pop(key, None)

    async def take(self) -> K:
        """The next key, once there is one. Return it with `done`."""
        while not self._waiting:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake_one()
                raise
        key = self._waiting.popleft()
        self._queued.discard(key)
        self._in_hand.add(key)
        return key

    def done(self, key: K) -> None:
        """The key is no longer in progress; if it was added meanwhile it is queued again."""
        self._in_hand.discard(key)
        if key in self._again:
            del self._again[key]
            self.add(key)

    def idle(self) -> bool:
        """True if no key waits or is in progress (timers may still be set)."""
        return not self._waiting and not self._in_hand

    def stop(self) -> None:
        """Cancel all timers."""
        for _, handle in self._timers.values():
            handle.cancel()
        self._timers.clear()

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _wake_one(self) -> None:
        while self._takers:
            turn = self._takers.popleft()
            if not turn.done():
                turn.set_result(None)
                return
