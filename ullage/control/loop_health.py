"""LoopHealth: liveness of a loop. A round that takes too long fails the liveness probe."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

STUCK_AFTER = 300.0
"""Seconds for one round. Every call in it has a shorter limit of its own."""


class LoopHealth:
    """LoopHealth: notes when a round begins and ends, by a steady clock. Waiting for events is no round."""

    def __init__(self, name: str, steady: Callable[[], float], limit: float = STUCK_AFTER) -> None:
        self._name = name
        self._steady = steady
        self._limit = limit
        self._began: float | None = None

    @contextmanager
    def round(self) -> Iterator[None]:
        self._began = self._steady()
        try:
            yield
        finally:
            self._began = None

    def stuck(self) -> str:
        """Return the problem in a few words; empty if the loop is not stuck."""
        if self._began is None or (lasted := self._steady() - self._began) <= self._limit:
            return ""
        return f"{self._name} has been in one round for {lasted:.0f} s"
