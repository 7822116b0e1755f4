"""ClockJumps: the amount by which the wall clock was set between two looks."""

from ullage.clock import Clock
from ullage.model.units import Seconds

TOLERATED = Seconds(5.0)
"""Seconds: less is a clock being slewed, or a machine that was slow."""


class ClockJumps:
    """Compares the wall clock with the clock that only goes forward."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._apart: float | None = None

    def last(self) -> float:
        """Seconds the wall clock was set by since this was last asked, forward if positive; 0 if it was not."""
        apart = self._clock.now() - self._clock.steady()
        jump = 0.0 if self._apart is None else apart - self._apart
        self._apart = apart
        return jump if abs(jump) > TOLERATED else 0.0
