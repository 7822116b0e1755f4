"""Calls to an API server, with retries where they are safe.

Retries are safe after a server that was too busy to begin (429), and for reads without a response or with a broken
one. A write that may have happened is never sent twice; its caller gets Unreachable or ServerFailure and has to check.
"""

import asyncio
import random
from dataclasses import dataclass

from ullage import errors
from ullage.kube.client import status_errors
from ullage.kube.client.rate import RateLimiter
from ullage.kube.client.transport import Request, Transport


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds on the retries of a call: number of attempts, and waits between them."""

    attempts: int = 5
    """Most times a call is sent, the first one included."""
    first_wait: float = 0.2
    """Seconds before the second attempt; doubled for each further one."""
    longest_wait: float = 30.0
    """Seconds between two attempts at most. A server that asks for longer gets no second attempt."""

    def wait(self, attempt: int, rng: random.Random) -> float:
        """Seconds before attempt number `attempt` + 1; jittered, so that many clients do not come back together."""
        return min(self.longest_wait, self.first_wait * 2.0 ** (attempt - 1)) * rng.uniform(0.5, 1.5)


class RetryingCaller:
    """Sends requests through a transport, with rate limit, retries and typed errors."""

    def __init__(
        self, transport: Transport, *, rng: random.Random, rate: RateLimiter | None, patience: RetryPolicy
    ) -> None:
        self.transport = transport
        self.rng = rng
        self._rate = rate
        self._patience = patience

    async def ask(self, request: Request, what: str, *, retry_when_busy: bool = True) -> bytes:
        """Send a request and return the body of the response. `what` describes the call, for messages."""
        for attempt in range(1, self._patience.attempts + 1):
            try:
                return await self._once(request, what)
            except (errors.TooManyRequests, errors.Unreachable, errors.ServerFailure) as error:
                if attempt == self._patience.attempts or not _may_ask_again(request, error, retry_when_busy):
                    raise
                wait = self._wait(error, attempt)
                if wait is None:
                    raise
            await asyncio.sleep(wait)
        raise errors.InvariantBroken("a call is attempted at least once")

    async def turn(self) -> None:
        """Wait until the client's own rate limit allows a call."""
        if self._rate is not None:
            await self._rate.turn()

    async def _once(self, request: Request, what: str) -> bytes:
        await self.turn()
        response = await self.transport.send(request)
        if 200 <= response.status < 300:
            return response.body
        raise status_errors.from_response(response, what)

    def _wait(self, error: errors.ApiError, attempt: int) -> float | None:
        """Seconds to wait, or None if the server asks for more than `longest_wait`."""
        asked = error.retry_after if isinstance(error, errors.TooManyRequests) else None
        if asked is None:
            return self._patience.wait(attempt, self.rng)
        if asked > self._patience.longest_wait:
            return None
        return asked + self.rng.uniform(0.0, 0.1 + 0.1 * asked)


def _may_ask_again(request: Request, error: errors.ApiError, retry_when_busy: bool) -> bool:
    if isinstance(error, errors.TooManyRequests):
        return retry_when_busy
    return request.method == "GET"
