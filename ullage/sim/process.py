"""Simulated processes: each has its own CPU time, and can crash without clean-up.

A process has threads (mostly one). A thread that computes is busy: none of its tasks takes a step until it is done, so
responses, watch lines and timers wait, as they would behind a long computation. Other processes go on. A crash first
cuts the process off from the API and then drops its tasks: clean-up code may run up to its next await, and its writes
reach no server. Works on virtual and scaled loops. This module does not know what a process does.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Any, Protocol, TypeVar

from ullage.clock import Instant
from ullage.errors import InvariantBroken, Unreachable
from ullage.kube.client.transport import Request, Response, Transport
from ullage.model.units import Steady
from ullage.sim.virtual_time import loop_clock

T = TypeVar("T")

MAIN = "main"

_LAST_AWAITS = 20
"""Awaits in nested clean-up that are cancelled one by one before the task is cut short."""


class CuttableTransport(Transport, Protocol):
    """A transport to an API server that can be cut like a cable."""

    def cut(self) -> None:
        """Block all requests from now on. Requests under way get no response."""
        ...


class SimulatedThread:
    """One thread of a process. While it is busy, none of its tasks takes a step."""

    def __init__(self, life: "ProcessRun") -> None:
        self.life = life
        self.busy_until = 0.0

    def occupy(self, seconds: float) -> asyncio.Future[None]:
        """Be busy for `seconds` after the present work ends. The future is done when the thread is free."""
        self.busy_until = max(self.busy_until, asyncio.get_running_loop().time()) + seconds
        return self._freed()

    def hold(self) -> asyncio.Future[None] | None:
        """Future that a task has to await before its next step; None if the thread is free."""
        if self.busy_until > asyncio.get_running_loop().time():
            return self._freed()
        return None

    def _freed(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        freed: asyncio.Future[None] = loop.create_future()
        loop.call_at(self.busy_until, _finish, freed)
        return freed


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_THREAD: ContextVar[SimulatedThread | None] = ContextVar("simulated thread", default=None)


class _Paced(Coroutine[Any, None, T]):
    """A coroutine that only steps while its thread is free, and is dropped at its next step after its process run
    ended.
    """

    def __init__(self, coro: Coroutine[Any, Any, T], thread: SimulatedThread) -> None:
        self.cr_await = coro
        """Named as in native coroutines, so that code that walks the chain of awaits finds it."""
        self._thread = thread
        self._error: BaseException | None = None

    def send(self, value: None) -> Any:  # noqa: ARG002 - tasks always send None
        if self._thread.life.over:
            return self._drop()
        if (hold := self._thread.hold()) is not None:
            return next(hold.__await__())
        error, self._error = self._error, None
        return self.cr_await.send(None) if error is None else self.cr_await.throw(error)

    def throw(
        self,
        error: Any,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        given = value if isinstance(value, BaseException) else error
        self._error = given() if isinstance(given, type) else given
        if traceback is not None and self._error is not None:
            self._error = self._error.with_traceback(traceback)
        return self.send(None)

    def close(self) -> None:
        self.cr_await.close()

    def __await__(self) -> Generator[Any, None, T]:
        raise TypeError("only a task drives this")

    def _drop(self) -> Any:
        """Unwind without waiting: clean-up that awaits is cancelled on the spot, and cut short if it goes on."""
        for attempt in range(2 * _LAST_AWAITS):
            try:
                if attempt < _LAST_AWAITS:
                    self.cr_await.throw(asyncio.CancelledError())
                else:
                    self.cr_await.close()
                    break
            except (StopIteration, asyncio.CancelledError):
                break
            except RuntimeError:
                continue  # it caught being closed, or it has ended with one: the next attempt will tell
            except Exception:  # noqa: BLE001 - errors of the clean-up of an ended process are dropped
                break
        else:
            raise InvariantBroken(f"a task of {self._thread.life.name} goes on after its death: {self.cr_await}")
        raise asyncio.CancelledError


class ProcessClock:
    """Clock with the loop's time. `charge` keeps the whole thread busy, not only the calling task."""

    def __init__(self, thread: SimulatedThread, skew: float = 0.0) -> None:
        self._thread = thread
        self._clock = loop_clock()
        self.skew = skew
        """Seconds by which its `now` is ahead of the others'. Durations are not affected."""

    def now(self) -> Instant:
        return Instant(self._clock.now() + self.skew)

    def steady(self) -> Steady:
        return self._clock.steady()

    async def charge(self, cpu_seconds: float) -> None:
        if cpu_seconds > 0:
            await self._thread.occupy(cpu_seconds)


class ProcessRun:
    """One run of a process, from start to crash or end. A restart makes a new one."""

    def __init__(self, name: str, wire: CuttableTransport, skew: float = 0.0) -> None:
        self.name = name
        self.over = False
        self.transport: Transport = _LivingTransport(self, wire)
        self.wire = wire
        self._threads = {MAIN: SimulatedThread(self)}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.clock = ProcessClock(self._threads[MAIN], skew)
        _keep_threads_apart(asyncio.get_running_loop())

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str, thread: str = MAIN) -> asyncio.Task[T]:
        """Start a task in a thread of this process. Tasks it starts run in the same thread.

        A task that raises ends the simulation: a process that is to survive errors has to handle them.
        """
        context = copy_context()
        context.run(_THREAD.set, self._threads.setdefault(thread, SimulatedThread(self)))
        task = asyncio.get_running_loop().create_task(coro, name=f"{self.name}/{name}", context=context)
        task.add_done_callback(self._raise_if_broken)
        return task

    async def charge(self, cpu_seconds: float) -> None:
        """Keep the thread busy for so many seconds."""
        await self.clock.charge(cpu_seconds)

    def freeze(self, seconds: float) -> None:
        """Stop all threads, as SIGSTOP and a late SIGCONT would."""
        for thread in self._threads.values():
            thread.occupy(seconds)

    def end(self) -> None:
        """Cut the API, then drop every task."""
        if self.over:
            return
        self.over = True
        self.wire.cut()
        for task in list(self._tasks):
            task.cancel()

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Add a task to this run. Every task started by a task of this run belongs to it."""
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def _raise_if_broken(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self.over:
            raise error


class _LivingTransport:
    """Transport of one process run. Fails once the run is over."""

    def __init__(self, life: ProcessRun, wire: Transport) -> None:
        self._life = life
        self._wire = wire

    async def send(self, request: Request) -> Response:
        self._refuse_the_dead()
        # Outside the thread and shielded: a request under way arrives even if its sender is busy or cancelled.
        context = copy_context()
        context.run(_THREAD.set, None)
        call = asyncio.get_running_loop().create_task(self._wire.send(request), context=context)
        call.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # a dropped caller never reads the result
        return await asyncio.shield(call)

    def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        self._refuse_the_dead()
        return self._wire.stream(request)

    async def close(self) -> None:
        if not self._life.over:
            await self._wire.close()

    def _refuse_the_dead(self) -> None:
        if self._life.over:
            raise Unreachable(f"{self._life.name} is dead")


Program = Callable[[ProcessRun], Coroutine[Any, Any, None]]
"""Main coroutine of a process, from start to end."""


class SimulatedProcess:
    """A name, a connect function and a program that can be started, crashed and started again."""

    def __init__(self, name: str, connect: Callable[[], CuttableTransport], program: Program) -> None:
        self.name = name
        self._connect = connect
        self._program = program
        self._skew = 0.0
        self._life: ProcessRun | None = None
        self._main: asyncio.Task[None] | None = None

    @property
    def life(self) -> ProcessRun:
        """The present run, or the last one."""
        if self._life is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._life

    @property
    def alive(self) -> bool:
        return self._main is not None and not self._main.done() and not self.life.over

    def start(self) -> None:
        """Begin a new run with a new connection."""
        if self.alive:
            raise RuntimeError(f"{self.name} is running")
        self._life = ProcessRun(self.name, self._connect(), self._skew)
        self._main = self._life.spawn(self._program(self._life), name=MAIN)

    def set_clock(self, skew: float) -> None:
        """Put the clock of its machine ahead by so many seconds, for this run and later ones."""
        self._skew = skew
        if self._life is not None:
            self._life.clock.skew = skew

    def crash(self) -> None:
        """End the process now, as by SIGKILL. Nothing it does afterwards reaches the API server."""
        self.life.end()

    def restart(self) -> None:
        """Crash if running, and start again."""
        if self.alive:
            self.crash()
        self.start()

    async def stop(self) -> None:
        """Ask the process to end, as by SIGTERM, and wait. Clean-up code can still use the API."""
        if self._main is not None and self.alive:
            self._main.cancel()
            await asyncio.wait((self._main,))
        self.life.end()


def _keep_threads_apart(loop: asyncio.AbstractEventLoop) -> None:
    """From now on, tasks started from within a simulated thread belong to it."""
    inner = loop.get_task_factory()
    if isinstance(inner, _ThreadedTasks):
        return
    loop.set_task_factory(_ThreadedTasks(inner))


class _ThreadedTasks:
    """A task factory that paces the tasks of simulated threads and leaves others as they are."""

    def __init__(self, inner: Callable[..., Any] | None) -> None:
        self._inner = inner or (lambda loop, coro, **how: asyncio.Task(coro, loop=loop, **how))

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **how: Any) -> Any:
        context = how.get("context")
        thread = _THREAD.get() if context is None else context.get(_THREAD)
        if thread is None:
            return self._inner(loop, coro, **how)
        task = self._inner(loop, _Paced(coro, thread), **how)
        thread.life.adopt(task)
        return task
