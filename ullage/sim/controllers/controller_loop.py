"""ControllerLoop: the loop that all simulated controllers share. Take a key, reconcile it, requeue it when due.

A conflict is not an error here: another client wrote first, and the key is retried after a short back-off.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from ullage.clock import Clock, Instant
from ullage.errors import ApiError, TooManyRequests
from ullage.sim.controllers.workqueue import WorkQueue

K = TypeVar("K", bound=Hashable)


class ControllerLoop(Generic[K]):
    """A work queue of keys and the workers that reconcile them."""

    def __init__(
        self, name: str, sync: Callable[[K], Awaitable[Instant | None]], clock: Clock, *, workers: int = 5
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(clock)
        self.refusals: dict[K, ApiError] = {}
        """API errors of the keys being retried, to find out why nothing happens."""
        self._sync = sync
        self._workers = workers
        self._may_work = asyncio.Event()
        self._may_work.set()

    def stop(self) -> None:
        """Pause, like a process that was sent SIGSTOP: reconciles under way end, and new keys wait."""
        self._may_work.clear()

    def go_on(self) -> None:
        self._may_work.set()

    async def run(self) -> None:
        """Work until cancelled. Any error but an ApiError ends the loop: it is a bug and must be seen."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name}-{number}")
        finally:
            self.queue.stop()

    async def _work(self) -> None:
        while True:
            key = await self.queue.take()
            try:
                await self._may_work.wait()
                wake_at = await self._sync(key)
            except ApiError as refusal:
                self.refusals[key] = refusal
                later = refusal.retry_after if isinstance(refusal, TooManyRequests) else None
                self.queue.retry(key, later or 0.0)
            else:
                self.refusals.pop(key, None)
                self.queue.forget_failures(key)
                if wake_at is not None:
                    self.queue.add_at(key, wake_at)
            finally:
                self.queue.done(key)
