"""Calls that have been answered: whole already, or open for reading with aiohttp. The transport begins them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from ullage.kube.transport import Response


class Answered(Protocol):
    """An answer whose status is known; whoever does not want the rest ends it."""

    @property
    def status(self) -> int: ...

    async def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Done:
    """An answer that was read."""

    response: Response

    @property
    def status(self) -> int:
        return self.response.status

    async def end(self) -> None:
        """Nothing is left to let go of."""


@dataclass(frozen=True, slots=True)
class Call:
    """An answer that is being read, and how to let go of its connection."""

    answer: aiohttp.ClientResponse
    leave: Callable[[], Awaitable[None]]

    @property
    def status(self) -> int:
        return self.answer.status

    async def whole(self) -> Response:
        """All of it."""
        retry_after = seconds_of(self.answer.headers.get("Retry-After", ""))
        return Response(self.answer.status, await self.answer.read(), retry_after)

    async def next_chunk(self) -> bytes:
        """What has arrived. Not readline(): it refuses lines longer than its buffer, and an object may be that long."""
        try:
            return await self.answer.content.readany()
        except RuntimeError as error:  # how aiohttp says that the connection was closed before this read began
            raise aiohttp.ClientConnectionError(str(error)) from error

    async def end(self) -> None:
        self.answer.release()
        await self.leave()

    async def hang_up(self) -> None:
        """Leave a stream without the courtesies of TLS: its server may be busy talking and never read our good-bye."""
        connection = self.answer.connection
        if not self.answer.content.at_eof() and connection and connection.transport:
            connection.transport.abort()
        await self.end()


def seconds_of(retry_after: str) -> float | None:
    """Seconds. API servers never send the other form, a date."""
    return float(retry_after) if retry_after.isdecimal() else None
