"""The loop every actor shares: take a key, bring it closer to what it should be, look again when told to.

A conflict is not an error here: someone wrote first, and the key comes back after a short back-off.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from ullage.clock import Clock, Instant
from ullage.errors import ApiError, TooManyRequests
from ullage.sim.actors.workqueue import WorkQueue

K = TypeVar("K", bound=Hashable)


class Actor(Generic[K]):
    """A queue of keys and the hands that work on them."""

    def __init__(
        self, name: str, sync: Callable[[K], Awaitable[Instant | None]], clock: Clock, *, hands: int = 5
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(clock)
        self.refusals: dict[K, ApiError] = {}
        """Why keys are being retried, for whoever wonders why nothing happens."""
        self._sync = sync
        self._hands = hands

    async def run(self) -> None:
        """Work until cancelled. Anything but a refusal of the API ends it: that is a bug and must be seen."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._hands):
                    group.create_task(self._work(), name=f"{self.name}-{number}")
        finally:
            self.queue.stop()

    async def _work(self) -> None:
        while True:
            key = await self.queue.take()
            try:
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
