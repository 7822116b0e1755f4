"""Keys with the instant each is due. Nothing is performed here; time is an argument."""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

from ullage.model.units import Instant

T = TypeVar("T", bound=Hashable)


class DeadlineQueue(Generic[T]):
    """DeadlineQueue: the last `put` of a key counts; keys due at the same instant keep their order."""

    def __init__(self) -> None:
        self._due: dict[T, tuple[Instant, int]] = {}
        self._heap: list[tuple[Instant, int, T]] = []
        self._entries = 0

    def due(self, thing: T) -> Instant | None:
        """Return the instant at which the key is due; None if it is not queued."""
        return self._due[thing][0] if thing in self._due else None

    def put(self, thing: T, at: Instant) -> None:
        """Set the key's instant; an earlier one is replaced."""
        if thing in self._due and self._due[thing][0] == at:
            return
        self._entries += 1
        self._due[thing] = at, self._entries
        heapq.heappush(self._heap, (at, self._entries, thing))

    def drop(self, thing: T) -> None:
        """Remove the key."""
        self._due.pop(thing, None)

    def take_due(self, now: Instant) -> T | None:
        """Remove and return the key that has been due the longest; None if none is due."""
        at = self.next_at()
        if at is None or at > now:
            return None
        thing = heapq.heappop(self._heap)[2]
        del self._due[thing]
        return thing

    def next_at(self) -> Instant | None:
        """Return the instant at which the next key is due; None if the queue is empty."""
        while self._heap:
            at, entry, thing = self._heap[0]
            if self._due.get(thing) == (at, entry):
                return at
            heapq.heappop(self._heap)  # dropped, or due at another moment
        return None
