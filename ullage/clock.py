"""Clock: the time outside the pure core, which gets it as an argument.

Sleeping, timeouts and deadlines are plain asyncio everywhere: a clock is bound to an event loop, and it is the loop
that decides how fast its seconds pass. Real loops pass them as they come; `ullage.sim.virtual_time` has a loop that
jumps to the next timer and one that runs faster than the world. So loops run unchanged on all three.
"""

import asyncio
import time
from typing import Protocol

from ullage.model.units import Instant as Instant
from ullage.model.units import Steady

# On Linux the monotonic clock stops while a machine is suspended, and it would wake up believing in expired leases.
_STEADY: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Source of time, and of the simulated cost of a decision."""

    def now(self) -> Instant:
        """Now, in seconds since the epoch: for timestamps that are written or shown."""
        ...

    def steady(self) -> Steady:
        """Seconds that only go forward, also while the machine is suspended: for timeouts and durations."""
        ...

    async def charge(self, cpu_seconds: float) -> None:
        """Account for work a decision would have cost. Real time has passed by itself; virtual time has not."""
        ...


class WallClock:
    """Wall clock. Nothing else in the package reads it."""

    def now(self) -> Instant:
        return Instant(time.time())  # noqa: TID251 - this is the clock

    def steady(self) -> Steady:
        return Steady(time.clock_gettime(_STEADY))

    async def charge(self, cpu_seconds: float) -> None:  # noqa: ARG002 - spent already
        return None


class LoopClock:
    """Time of the running loop, counted from a given epoch: the clock of virtual and scaled loops."""

    def __init__(self, epoch: Instant) -> None:
        self._epoch = epoch

    def now(self) -> Instant:
        return Instant(self._epoch + asyncio.get_running_loop().time())

    def steady(self) -> Steady:
        return Steady(asyncio.get_running_loop().time())

    async def charge(self, cpu_seconds: float) -> None:
        if cpu_seconds > 0:
            await asyncio.sleep(cpu_seconds)
