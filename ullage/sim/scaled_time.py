"""Scaled time: an event loop whose time passes faster than real time, can stand still, and is open to the world.

The only loop of the simulator that reads a real clock, and only to wait as long as its own time asks for.
"""

import asyncio
import heapq
import itertools
import math
import selectors
import time
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

from ullage.clock import Instant
from ullage.sim.virtual_time import EPOCH, NumberedTask

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_CATCH_UP_SECONDS = 0.25
"""Real seconds by which a scaled loop may be late and catch up; what it is later than that is lost."""
_SAME_INSTANT = 1e-6
"""Seconds before a timer in which what comes in from outside happens at the timer's own instant."""
_LONGEST_WAIT = 86_400.0
"""Real seconds of one wait at most: the system counts milliseconds, and not for a month."""


class ScaledLoop(asyncio.SelectorEventLoop):
    """A real loop whose seconds pass `speed` times faster, can stand still, and are exact: for demonstrations.

    Time stands still while anything is runnable, and a timer fires at its own instant. So what happens does not depend
    on how quick the machine is, unless something comes in from outside: sockets, threads and signals are served at any
    time, also in a pause. `speed` is an upper bound: a loop with more to do than there is time for falls behind. The
    other end of a socket lives in real time: a timeout of 30 s here is over after `30 / speed` of its seconds.
    """

    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, speed: float, epoch: Instant = EPOCH) -> None:
        self.epoch = epoch
        self._pace = _PacingSelector(checked_speed(speed), self._next_timer)
        super().__init__(self._pace)
        self._sequence = itertools.count()
        numbers = itertools.count()
        self.set_task_factory(lambda loop, coro, **how: NumberedTask(next(numbers), coro, loop, **how))

    def time(self) -> float:
        """Time of the loop. Constant within one iteration."""
        return self._pace.now

    @property
    def speed(self) -> float:
        """Seconds of this loop in a real one, also those it would have if it were not paused."""
        return self._pace.speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._pace.speed = checked_speed(speed)

    @property
    def paused(self) -> bool:
        return self._pace.paused

    def pause(self) -> None:
        """Let time stand still from now on."""
        self._pace.paused = True

    def resume(self) -> None:
        """Let time pass again."""
        self._pace.resume()

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer. Those of equal time fire in the order they were set, which asyncio's own heap does not keep."""
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        handle = _OrderedTimer(when, callback, args, self, context, number=next(self._sequence))
        heapq.heappush(self._scheduled, handle)
        handle._scheduled = True
        return handle

    @property
    def _clock_resolution(self) -> float:
        """Seconds by which asyncio lets timers fire early: the least there is, so that each fires at its instant."""
        return math.ulp(self._pace.now)

    @_clock_resolution.setter
    def _clock_resolution(self, resolution: float) -> None:
        """Nothing to set: asyncio would, when the loop is made."""

    def _next_timer(self) -> float:
        return self._scheduled[0].when() if self._scheduled else math.inf


class _OrderedTimer(asyncio.TimerHandle):
    """A timer that comes after those set before it for the same instant."""

    _scheduled: bool
    _when: float

    def __init__(self, *timer: Any, number: int) -> None:
        super().__init__(*timer)
        self._number = number

    def __lt__(self, other: Any) -> bool:
        return (self._when, self._number) < (other._when, other._number)


def checked_speed(speed: float) -> float:
    """The speed. Raises ValueError if no loop could have it."""
    if not 0 < speed < math.inf:
        raise ValueError(f"speed must be a positive number, is {speed}")
    return speed


class _PacingSelector(selectors.DefaultSelector):
    """Waits for I/O as long as the loop asks, in real seconds, and moves the loop's time to the next timer.

    Called by the loop when nothing is runnable (or with 0 if something is: then time stands still).
    """

    def __init__(self, speed: float, next_timer: Callable[[], float]) -> None:
        super().__init__()
        self.now = 0.0
        self.speed = speed
        self.paused = False
        self._next_timer = next_timer
        self._real = time.monotonic()
        """Real instant of `now`, had the machine been quick enough."""

    def resume(self) -> None:
        if self.paused:
            self.paused, self._real = False, time.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self.paused:
            return super().select(None)
        target = self._next_timer()
        due = self._real + (target - self.now) / self.speed
        found = super().select(None if target == math.inf else min(max(0.0, due - time.monotonic()), _LONGEST_WAIT))
        real = time.monotonic()
        reached = self.now + (real - self._real) * self.speed
        if real >= due or target - reached < _SAME_INSTANT:
            self.now, self._real = target, max(due, real - _CATCH_UP_SECONDS)
        else:
            self.now, self._real = max(self.now, reached), real
        return found


def run_scaled(main: Coroutine[Any, Any, T], *, speed: float, epoch: Instant = EPOCH) -> T:
    """Run `main` with seconds that pass `speed` times faster than real ones."""
    with asyncio.Runner(loop_factory=lambda: ScaledLoop(speed, epoch)) as runner:
        return runner.run(main)
