"""What has to be looked at when. Nothing is done here, and nobody is told the time."""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Agenda(Generic[T]):
    """Things with the moment each is due; the latest word on each counts. Equal moments keep their order."""

    def __init__(self) -> None:
        self._due: dict[T, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, T]] = []
        self._entries = 0

    def due(self, thing: T) -> float | None:
        """When it is due, if it is on the agenda."""
        return self._due[thing][0] if thing in self._due else None

    def put(self, thing: T, at: float) -> None:
        """It is due at this moment, and at no other."""
        if thing in self._due and self._due[thing][0] == at:
            return
        self._entries += 1
        self._due[thing] = at, self._entries
        heapq.heappush(self._heap, (at, self._entries, thing))

    def drop(self, thing: T) -> None:
        """It need not be looked at."""
        self._due.pop(thing, None)

    def take_due(self, now: float) -> T | None:
        """What has been due the longest, which is no longer on the agenda; None if nothing is due."""
        at = self.next_at()
        if at is None or at > now:
            return None
        thing = heapq.heappop(self._heap)[2]
        del self._due[thing]
        return thing

    def next_at(self) -> float | None:
        """When the next thing is due."""
        while self._heap:
            at, entry, thing = self._heap[0]
            if self._due.get(thing) == (at, entry):
                return at
            heapq.heappop(self._heap)  # dropped, or due at another moment
        return None
