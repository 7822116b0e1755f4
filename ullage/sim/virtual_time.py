"""Virtual time: an event loop that jumps to its next timer.

Everything asyncio offers (sleep, timeout, wait_for, Queue, TaskGroup) works on it unchanged. It is deterministic:
timers of equal time fire in the order they were set, and nothing from outside can get in, so it refuses sockets,
threads and subprocesses. `scaled_time` is the same for people who look on.
"""

import asyncio
import heapq
import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

from ullage.clock import Instant, LoopClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = Instant(1_767_225_600.0)
"""Start time of simulations, unless given: 2026-01-01T00:00:00Z."""

STEPS_AT_ONE_INSTANT = 1_000_000
"""Loop iterations without time passing after which the simulation counts as livelocked."""


class Stuck(RuntimeError):
    """Simulated time can no longer pass."""


class Deadlock(Stuck):
    """Nothing is runnable and no timer is set: all tasks wait for each other."""


class Livelock(Stuck):
    """Tasks run again and again without letting time pass."""


class RealWorldRefused(RuntimeError):
    """A virtual loop was asked for something that needs the real world, such as a socket or a thread."""


class NumberedTask(asyncio.Task[T]):
    """A task hashed by its number instead of its address, because asyncio cancels sets of tasks in their order."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, **how: Any) -> None:
        self._number = number
        super().__init__(coro, loop=loop, **how)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """Jumps to the next timer when nothing is runnable. Times are exact: no resolution, no drift."""

    _ready: deque[asyncio.Handle]
    _stopping: bool
    _closed: bool
    _thread_id: int | None

    def __init__(self, epoch: Instant = EPOCH) -> None:
        super().__init__()
        self.epoch = epoch
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._sequence = itertools.count()
        self._cancelled_timers = 0
        self._steps = 0
        self._failure: BaseException | None = None
        numbers = itertools.count()
        self.set_task_factory(lambda loop, coro, **how: NumberedTask(next(numbers), coro, loop, **how))

    def time(self) -> float:
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self._check_open()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if when < math.inf:
            heapq.heappush(self._timers, (when, next(self._sequence), handle))
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        # The inherited one asks twice for debug mode, in which it only looks for mistakes with threads.
        self._check_open()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        # Abandoned async generators are closed through this, from the loop's own thread.
        if self._thread_id not in (None, threading.get_ident()):
            raise RealWorldRefused("virtual time has no other threads, and one called call_soon_threadsafe")
        return self.call_soon(callback, *args, context=context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """End the simulation when a callback raises: going on would simulate an impossible state."""
        error = context.get("exception")
        if "handle" in context and isinstance(error, BaseException):
            self._failure = self._failure or error
        else:
            super().default_exception_handler(context)

    def close(self) -> None:
        self._timers.clear()
        super().close()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:  # noqa: ARG002 - signature of asyncio
        self._cancelled_timers += 1
        if self._cancelled_timers > 200 and self._cancelled_timers > len(self._timers) // 2:
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def _run_once(self) -> None:
        """One iteration, called by `run_forever`: due timers, then everything that was ready when it began."""
        ready = self._ready
        if not ready and not self._stopping:
            self._jump()
        timers, now = self._timers, self._now
        while timers and timers[0][0] <= now:
            handle: asyncio.Handle = heapq.heappop(timers)[2]
            ready.append(handle)
        self._steps += 1
        if self._steps > STEPS_AT_ONE_INSTANT:
            raise Livelock(f"time stands still at {now:.6f} s; waiting: {self._waiting()}")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:  # asked half a million times in a story: without a call
                handle._run()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _jump(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(f"nothing can happen after {self._now:.6f} s; waiting: {self._waiting()}")
        if timers[0][0] > self._now:
            self._now = timers[0][0]
            self._steps = 0

    def _waiting(self) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        return "; ".join(f"{task.get_name()} {_where(task)}" for task in tasks) or "no task at all"


def _where(task: asyncio.Task[Any]) -> str:
    """Innermost line a task waits at, in the calling code rather than inside asyncio."""
    place = "somewhere"
    for frame in _frames(task.get_coro()):
        if "asyncio" not in frame.f_code.co_filename.split("/"):
            place = f"in {frame.f_code.co_qualname} at {frame.f_code.co_filename}:{frame.f_lineno}"
    return place


def _frames(awaited: object) -> Iterator[Any]:
    while awaited is not None:
        for kind in ("cr", "gi", "ag"):
            if (frame := getattr(awaited, f"{kind}_frame", None)) is not None:
                yield frame
        awaited = next(
            (inner for name in ("cr_await", "gi_yieldfrom", "ag_await") if (inner := getattr(awaited, name, None))),
            None,
        )


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(self: VirtualLoop, *_: object, **__: object) -> Any:  # noqa: ARG001 - takes the place of a method
        raise RealWorldRefused(f"virtual time has no sockets, threads or subprocesses, and {name} needs one")

    return refuse


_REFUSED = (
    "add_reader", "add_signal_handler", "add_writer", "connect_accepted_socket", "connect_read_pipe",
    "connect_write_pipe", "create_connection", "create_datagram_endpoint", "create_server", "create_unix_connection",
    "create_unix_server", "getaddrinfo", "getnameinfo", "run_in_executor", "sendfile", "set_default_executor",
    "sock_accept", "sock_connect", "sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into",
    "sock_sendall", "sock_sendfile", "sock_sendto", "start_tls", "subprocess_exec", "subprocess_shell",
)  # fmt: skip
for _name in _REFUSED:
    setattr(VirtualLoop, _name, _refusal(_name))


def loop_clock() -> LoopClock:
    """Clock of the running virtual or scaled loop."""
    loop = asyncio.get_running_loop()
    epoch = getattr(loop, "epoch", None)
    if epoch is None:
        raise RuntimeError("the running loop is neither virtual nor scaled: use WallClock")
    return LoopClock(epoch)


def run_virtual(main: Coroutine[Any, Any, T], *, epoch: Instant = EPOCH) -> T:
    """Run `main` to its end in virtual time, then drop the tasks it left running."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(epoch)) as runner:
        return runner.run(main)
