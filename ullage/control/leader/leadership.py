"""Term of leadership of the one replica that acts: how long it is certain, and what runs during it.

The rule that makes hand-over safe: a term is certain for one lease duration counted from the moment *before* its last
successful renewal was sent. Other candidates count the same duration from a later moment, when they saw that renewal.
So the old leader stops before a new one starts, whatever happens to the network or to either process; clocks need not
agree, only run about equally fast. Holding the Lease is in `election`; refusing late writes is in `guard`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ullage.clock import Clock
from ullage.errors import LeadershipLost

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ElectionTiming:
    """Timing of a Lease, in seconds. The defaults are those of Kubernetes' own components."""

    duration: int = 15
    """Time since the last renewal after which other candidates take over."""
    renew_deadline: float = 10.0
    """A leader that could not renew for so long stops by itself."""
    retry: float = 2.0
    """Time between two renewals. Reads of another candidate's Lease are up to 2.2 times as far apart, by chance."""
    margin: float = 2.0
    """No write is begun, or waited for, so shortly before the term ends: for clocks that run apart and slow wires."""

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_deadline < self.duration - self.margin < self.duration:
            raise ValueError(f"retry < renew_deadline < duration - margin must hold, and all be positive: {self}")


class Leadership:
    """One term. It may be extended from another thread; everything else belongs to the event loop that acts."""

    def __init__(self, identity: str, term: int, clock: Clock, margin: float) -> None:
        self.identity = identity
        self.term = term
        """Grows with every change of leader: what is marked with a lower one comes from an earlier leader."""
        self._clock = clock
        self._margin = margin
        self._valid_until = float("-inf")
        self._over = False
        self._writes: dict[asyncio.Task[Any], None] = {}
        self._unanswered_at: float | None = None

    @property
    def valid_until(self) -> float:
        """Steady time until which no other replica can lead."""
        return self._valid_until

    def extend(self, until: float) -> None:
        """The lease was renewed."""
        self._valid_until = max(self._valid_until, until)

    def end(self) -> None:
        """End the term: it allows nothing from now on."""
        self._over = True

    def remaining(self) -> float:
        """Seconds within which a write must be over; 0 when none may begin."""
        if self._over:
            return 0.0
        return max(0.0, self._valid_until - self._margin - self._clock.steady())

    async def write(self, attempt: Coroutine[Any, Any, T]) -> T:
        """Carry out a write that keeps to `remaining`. It goes on if the caller is cancelled: it may have left."""
        task = asyncio.create_task(attempt, name=f"write of {self.identity}")
        self._writes[task] = None
        task.add_done_callback(self._write_ended)
        return await asyncio.shield(task)

    def note_unanswered(self) -> None:
        """Note a write without an answer: it may have happened or may still happen."""
        self._unanswered_at = self._clock.steady()

    async def settled(self, within: float) -> bool:
        """Wait for writes under way. True if nothing written in the last `within` seconds can still take effect."""
        if self._writes:
            await asyncio.wait(tuple(self._writes))
        return self._unanswered_at is None or self._clock.steady() - self._unanswered_at > within

    def _write_ended(self, task: asyncio.Task[Any]) -> None:
        self._writes.pop(task, None)
        if task.cancelled() or not isinstance(task.exception(), LeadershipLost | None):
            self.note_unanswered()


class LeaderCandidate(Protocol):
    """Candidate for election: on this event loop, or in a thread of its own."""

    async def acquire(self) -> Leadership:
        """Wait until the lease is ours."""
        ...

    async def keep(self, leadership: Leadership) -> None:
        """Renew until it is lost; returns then."""
        ...

    async def release(self, leadership: Leadership) -> None:
        """Let others have the lease at once, if that is safe. Never raises: a lease left alone expires."""
        ...


async def lead(candidate: LeaderCandidate, run: Callable[[Leadership], Coroutine[Any, Any, None]]) -> None:
    """Wait for the Lease, run while it is held, hand it over. Raises LeadershipLost if it was lost before `run` ended.

    However it ends, `run` has ended before this does. On a clean stop the Lease is kept until then.
    """
    leadership = await candidate.acquire()
    keeping = asyncio.create_task(candidate.keep(leadership), name=f"lease of {leadership.identity}")
    keeping.add_done_callback(lambda _: leadership.end())
    running = asyncio.create_task(run(leadership), name=f"term {leadership.term} of {leadership.identity}")
    try:
        await asyncio.wait((keeping, running), return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended_by_itself = running.done()
        cancelled = await _stop(running)
        lost = keeping.done()
        leadership.end()
        cancelled |= await _stop(keeping)
        if not lost:
            await candidate.release(leadership)
    if cancelled:
        raise asyncio.CancelledError
    if keeping.done() and not keeping.cancelled():
        keeping.result()
    if not ended_by_itself:
        raise LeadershipLost(f"{leadership.identity} lost its lease in term {leadership.term}")
    running.result()


async def _stop(task: asyncio.Task[None]) -> bool:
    """Cancel the task and wait for its end. If cancelled meanwhile, cancel the task once more and return True."""
    insisted = False
    task.cancel()
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            insisted = True
            task.cancel()
    return insisted
