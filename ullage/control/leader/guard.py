"""Last check before a write is sent: this replica still leads, and the response will be here before its term ends."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from ullage.control.leader.leadership import Leadership
from ullage.errors import LeadershipLost, Unreachable
from ullage.kube.client.transport import Request, Response, Transport

_READS = ("GET", "HEAD")


class StandbyTransport:
    """StandbyTransport: for a replica that may be elected. Reads pass from the start, writes from its term on."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._guarded: GuardedTransport | None = None

    def elected(self, leadership: Leadership) -> None:
        """Begin the term of leadership; there is only one."""
        self._guarded = GuardedTransport(self._inner, leadership)

    async def send(self, request: Request) -> Response:
        if self._guarded is not None:
            return await self._guarded.send(request)
        if request.method not in _READS:
            raise LeadershipLost(f"{request.method} {request.path}: not elected yet")
        return await self._inner.send(request)

    def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        return self._inner.stream(request)

    async def close(self) -> None:
        """Do nothing: the connections belong to the code that opened them."""


class GuardedTransport:
    """GuardedTransport: a transport for one term. Reads pass; writes are refused near its end, and bounded to it
    before.

    The API server gets the bound too: it gives up on a write it could not carry out in time. What remains is a write
    that was checked, and then delayed on its way for longer than the margin.
    """

    def __init__(self, inner: Transport, leadership: Leadership) -> None:
        self._inner = inner
        self._leadership = leadership

    async def send(self, request: Request) -> Response:
        if request.method in _READS:
            return await self._inner.send(request)
        return await self._leadership.write(self._write(request))

    def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        return self._inner.stream(request)

    async def close(self) -> None:
        """Do nothing: the connections belong to the code that opened them, and outlive a term."""

    async def _write(self, request: Request) -> Response:
        # Checked here and not in `send`: between a caller's await and this line the process may have stood still.
        left = self._leadership.remaining()
        if left <= 0:
            raise LeadershipLost(f"{request.method} {request.path}: {self._leadership.identity} no longer leads")
        limit = left if request.timeout is None else min(left, request.timeout)
        bounded = replace(request, timeout=limit, query={**request.query, "timeout": f"{max(1, int(limit * 1000))}ms"})
        try:
            async with asyncio.timeout(limit):
                response = await self._inner.send(bounded)
        except TimeoutError as error:
            raise Unreachable(f"{request.method} {request.path}: no answer within {limit:.1f} s") from error
        if response.status >= 500:
            self._leadership.note_unanswered()
        return response
