"""By how much a wall clock was set."""

from ullage.clock import Instant
from ullage.control.clock_jumps import ClockJumps
from ullage.model.units import Steady


class Clock:
    """One that can be set."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.wrong = 0.0

    def now(self) -> Instant:
        return Instant(1e9 + self.seconds + self.wrong)

    def steady(self) -> Steady:
        return Steady(self.seconds)

    async def charge(self, cpu_seconds: float) -> None:
        self.seconds += cpu_seconds


def test_a_jump_is_told_once_and_passing_time_is_none() -> None:
    clock = Clock()
    jumps = ClockJumps(clock)
    said = [jumps.last()]
    for seconds, wrong in ((3600.0, 0.0), (9.0, 3600.0), (9.0, 3601.0), (9.0, 0.0), (9.0, 0.0)):
        clock.seconds += seconds
        clock.wrong = wrong
        said.append(jumps.last())
    assert said == [0.0, 0.0, 3600.0, 0.0, -3601.0, 0.0]
