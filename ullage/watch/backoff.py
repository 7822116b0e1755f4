"""Back-off before a retry: growing, jittered so that clients do not retry in step, reproducible by seed."""

import random


class JitteredBackoff:
    """Doubles from `first` to `longest` seconds; each wait is drawn between half of that and all of it."""

    def __init__(self, rng: random.Random, *, first: float = 0.4, longest: float = 15.0) -> None:
        if not 0 < first <= longest:
            raise ValueError(f"waits must grow from a positive number, not from {first} to {longest}")
        self._rng = rng
        self._first = first
        self._longest = longest
        self._next = first

    def next(self, at_least: float | None = None) -> float:
        """Seconds to wait now. `at_least` is what the other side asked for."""
        wait = self._next * self._rng.uniform(0.5, 1.0)
        self._next = min(self._longest, self._next * 2)
        return max(wait, at_least or 0.0)

    def reset(self) -> None:
        """Things went well for a while."""
        self._next = self._first
