"""Longest time an event loop is held: CPU time of every step of every task, by kind of work.

A step of a task runs from one await to the next; nothing else runs meanwhile. CPU time and not time by the clock: a
shared machine is never faster than it is. The clock that slices plans counts CPU time, too.
"""

import asyncio
import time
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, TypeVar

from bench.record import Figure
from ullage.clock import Instant
from ullage.model.units import Steady

T = TypeVar("T")

AT_P999, EVER = 50.0, 100.0
"""Promised: milliseconds at the 99.9th percentile of steps, and ever."""

ENOUGH = 1_000
"""Steps from which a 99.9th percentile is told."""


class CpuClock:
    """Clock whose seconds are CPU seconds of this thread."""

    def __init__(self, began: float) -> None:
        self._began = began - time.thread_time()

    def now(self) -> Instant:
        return Instant(self._began + time.thread_time())

    def steady(self) -> Steady:
        return Steady(time.thread_time())

    async def charge(self, cpu_seconds: float) -> None:  # noqa: ARG002 - spent already
        return None


class LoopHolds:
    """Steps of all tasks, by the kind of work under way. Use as the task factory of a loop."""

    def __init__(self) -> None:
        self.kind = ""
        self._steps: dict[str, list[float]] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T], **how: Any) -> asyncio.Task[T]:
        return asyncio.Task(_Timed(coro, self), loop=loop, **how)

    def add(self, seconds: float) -> None:
        if self.kind:
            self._steps.setdefault(self.kind, []).append(seconds * 1000)

    def figures(self, *, promised: bool) -> list[Figure]:
        """Two figures per kind: the 99.9th percentile, and the longest."""
        found, bound = list[Figure](), 1.0 if promised else None
        for kind, steps in self._steps.items():
            steps.sort()
            p999 = steps[min(int(len(steps) * 0.999), len(steps) - 1)] if len(steps) >= ENOUGH else None
            name = f"hold: {kind}"
            if p999 is not None:
                found.append(Figure(f"{name}, p99.9 of {len(steps):,}", "ms", p999, AT_P999, "at most", bound))
            found.append(Figure(f"{name}, longest of {len(steps):,}", "ms", steps[-1], EVER, "at most", bound))
        every = sorted(step for steps in self._steps.values() for step in steps)
        if len(every) >= ENOUGH:
            p999 = every[int(len(every) * 0.999)]
            found.append(Figure(f"hold: all kinds, p99.9 of {len(every):,}", "ms", p999, AT_P999, "at most", bound))
        return found


class _Timed(Coroutine[Any, Any, T]):
    """A coroutine whose steps are timed."""

    def __init__(self, coro: Coroutine[Any, Any, T], holds: LoopHolds) -> None:
        self._coro = coro
        self._holds = holds

    def send(self, value: Any) -> Any:
        began = time.thread_time()
        try:
            return self._coro.send(value)
        finally:
            self._holds.add(time.thread_time() - began)

    def throw(self, error: Any, value: BaseException | object = None, traceback: TracebackType | None = None) -> Any:
        began = time.thread_time()
        try:
            return self._coro.throw(error, value, traceback)
        finally:
            self._holds.add(time.thread_time() - began)

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Generator[Any, None, T]:
        raise TypeError("only a task drives this")
