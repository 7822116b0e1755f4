"""A client's own limit on how often it asks, so that one process cannot crowd out the others."""

import asyncio


class RateLimiter:
    """A token bucket: `per_second` calls in the long run, up to `burst` at once. First come, first served.

    Waiters stand in line at a lock; one that gives up spends nothing. Time is the running loop's.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError(f"a rate needs per_second > 0 and burst >= 1, not {per_second} and {burst}")
        self._interval = 1.0 / per_second
        self._slack = (burst - 1) * self._interval
        self._line = asyncio.Lock()
        self._spent_until = float("-inf")

    async def turn(self) -> None:
        """Wait for one's turn, and take it."""
        async with self._line:
            loop = asyncio.get_running_loop()
            wait = self._spent_until - self._slack - loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
            self._spent_until = max(self._spent_until, loop.time()) + self._interval
