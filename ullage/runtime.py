"""Runtime of all loops: wake on a change or at a deadline, pace, perform intents concurrently, slice long plans.

Every loop of every process runs on this module; it decides nothing. It is beside `kube` and not in `control`, because
agents, certificates and clouds wait for changes and deadlines too.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from ullage.clock import Clock
from ullage.model.stepper import Stepper

T = TypeVar("T")
IntentT = TypeVar("IntentT")
OutcomeT = TypeVar("OutcomeT")

STUCK_AFTER = 300.0
"""Seconds for one reconcile. Every call in it has a shorter limit of its own."""
SLICE = 0.005
"""Seconds of a plan after which other tasks run. The longest step, a fork, takes up to 30 ms: free within 50 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """Pauses of a loop, in seconds. Changes that come meanwhile are taken in together."""

    after_run: float = 0.0
    before_run: float = 0.0
    """Changes come in bursts: the first one opens this window."""
    rest_factor: float = 0.0
    """Rest after a run, as a multiple of the time it took."""


class Wakeup:
    """A change, or a deadline, whichever comes first."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    @property
    def is_set(self) -> bool:
        """True if there was a change since `clear`."""
        return self._changed.is_set()

    def set(self) -> None:
        """Note a change."""
        self._changed.set()

    def clear(self) -> None:
        """Forget changes up to now; call it before they are read."""
        self._changed.clear()

    async def wait(self, seconds: float | None) -> bool:
        """Wait for a change, at most so many seconds (None: for as long as it takes). True if there was one."""
        try:
            async with asyncio.timeout(None if seconds is None else max(0.0, seconds)):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True


class Reconciler(Protocol):
    """Work of one loop: `reconcile` compares what is with what should be, and acts."""

    @property
    def pacing(self) -> Pacing: ...

    def longest_wait(self) -> float | None:
        """Seconds until the next run is due without a change; None if none is."""
        ...

    async def reconcile(self) -> bool:
        """Run once. True if another run is due at once."""
        ...


class LoopHealth:
    """LoopHealth: notes when a run begins and ends, by a steady clock. Waiting for events is no run."""

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


async def run_reconciler(loop: Reconciler, wakeup: Wakeup, clock: Clock, health: LoopHealth | None = None) -> None:
    """Reconcile until cancelled: now, then after every change and deadline. A change during a run causes another."""
    while True:
        wakeup.clear()
        began, pacing = clock.steady(), loop.pacing
        with nullcontext() if health is None else health.round():
            again = await loop.reconcile()
        await pause(max(pacing.after_run, pacing.rest_factor * (clock.steady() - began)))
        if not again:
            await wakeup.wait(loop.longest_wait())
        await pause(pacing.before_run)


async def pause(seconds: float) -> None:
    """Sleep. A pause of 0 does not let other tasks run."""
    if seconds > 0:
        await asyncio.sleep(seconds)


async def let_others_run() -> None:
    """Let every task that is ready run once."""
    await asyncio.sleep(0)


def seconds_until(deadline: float | None, now: float) -> float | None:
    """Seconds until a deadline by the clock of `now`, at least 0; None if there is no deadline."""
    return None if deadline is None else max(0.0, deadline - now)


class LoopTasks:
    """Tasks of one loop, started from synchronous code. They end with the loop; one that raises ends the loop."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None

    async def __aenter__(self) -> "LoopTasks":
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._group is not None:
            await self._group.__aexit__(kind, error, trace)

    def start(self, work: Coroutine[Any, Any, None], name: str | None = None) -> None:
        """Start a task. Only while the loop runs."""
        if self._group is None:
            work.close()
            raise RuntimeError("a task was started before its loop ran")
        self._group.create_task(work, name=name)


class ActionRunner(Generic[IntentT, OutcomeT]):
    """Performs intents concurrently, settles each outcome as it comes, and wakes the loop.

    An intent takes slots of `limit` while it is performed. The limit is the caller's to keep: it asks `full` before it
    decides, because an intent that was decided is performed.
    """

    def __init__(
        self,
        perform: Callable[[IntentT], Awaitable[OutcomeT]],
        settle: Callable[[OutcomeT], None],
        tasks: LoopTasks,
        wakeup: Wakeup,
        *,
        limit: int,
    ) -> None:
        self._perform = perform
        self._settle = settle
        self._tasks = tasks
        self._wakeup = wakeup
        self.limit = limit
        self.taken = 0
        """Slots in use."""

    @property
    def full(self) -> bool:
        """True if no slot is free: nothing more should be decided."""
        return self.taken >= self.limit

    def start(self, intent: IntentT, *, slots: int = 1, name: str | None = None) -> None:
        """Perform an intent; nothing is waited for."""
        self.taken += slots
        self._tasks.start(self._run(intent, slots), name)

    async def _run(self, intent: IntentT, slots: int) -> None:
        try:
            outcome = await self._perform(intent)
        finally:
            self.taken -= slots
            self._wakeup.set()
        self._settle(outcome)
        self._wakeup.set()


_GC_THRESHOLDS = (10_000, 100, 100)
"""Thresholds of the collector's three generations. A look at 50,000 young objects took up to 24 ms, in one piece."""


def keep_garbage_collection_short() -> None:
    """Set aside the objects there are: the collector does not look at them again. Call it once the snapshot is filled.

    A full collection looks at every object: 109 ms at 5,000 nodes and 100,000 pods, and no task runs meanwhile. Facts
    are freed by their reference counts all the same; only cycles need the collector, and those are young. It does not
    collect first: that would be such a hold itself. Planners make many objects that live for one plan: with the default
    thresholds they are looked at again and again while it is made.
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


async def drive(steps: Stepper[T], clock: Clock, *, budget: float, slice_time: float = SLICE) -> T:
    """Run a stepper to its end. Other tasks run after every slice; after `budget` seconds it is told to end.

    Simulated time passes by the modelled cost of each step; real time has passed already.
    """
    began = sliced = clock.steady()
    try:
        cost = next(steps)
        while True:
            await clock.charge(cost)
            if clock.steady() - sliced >= slice_time:
                await let_others_run()
                sliced = clock.steady()
            cost = steps.send(clock.steady() - began < budget)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()
