"""Calls with a response: read completely, or open for reading with aiohttp. The transport begins them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from ullage.kube.client.transport import Response


class AnsweredCall(Protocol):
    """Call whose status is known. A caller that does not need the rest calls `end`."""

    @property
    def status(self) -> int: ...

    async def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """Call whose response was read completely."""

    response: Response

    @property
    def status(self) -> int:
        return self.response.status

    async def end(self) -> None:
        """Do nothing: the connection is released already."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """Call whose response is being read; `leave` releases its connection."""

    answer: aiohttp.ClientResponse
    leave: Callable[[], Awaitable[None]]

    @property
    def status(self) -> int:
        return self.answer.status

    async def whole(self) -> Response:
        """Read the whole response."""
        retry_after = seconds_of(self.answer.headers.get("Retry-After", ""))
        return Response(self.answer.status, await self.answer.read(), retry_after)

    async def next_chunk(self) -> bytes:
        """Return the bytes that have arrived. Objects may be longer than the longest line that readline() accepts."""
        try:
            return await self.answer.content.readany()
        except RuntimeError as error:  # how aiohttp says that the connection was closed before this read began
            raise aiohttp.ClientConnectionError(str(error)) from error

    async def end(self) -> None:
        self.answer.release()
        await self.leave()

    async def hang_up(self) -> None:
        """Abort a stream without a TLS shutdown: a server that is busy sending may never read it."""
        connection = self.answer.connection
        if not self.answer.content.at_eof() and connection and connection.transport:
            connection.transport.abort()
        await self.end()


def seconds_of(retry_after: str) -> float | None:
    """Parse a Retry-After header in seconds. API servers never send the other form, a date."""
    return float(retry_after) if retry_after.isdecimal() else None
