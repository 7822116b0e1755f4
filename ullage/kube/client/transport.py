"""`Transport`: interface between the API client and the way its requests reach an API server.

`kube.http` carries requests over TLS; `sim.apiserver` answers them in memory. Everything above (encoding, paging,
typed errors, retries) is shared, so whatever is tested on one side holds on the other.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """One call, as an API server would see it."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = JSON
    timeout: float | None = 30.0
    """Seconds until the call counts as unanswered; for a stream, until it counts as dead whatever still comes."""
    accept: str = JSON
    """The forms of answer that will do, as in HTTP: only servers with several look at it."""
    compact: Callable[[], bytes | None] | None = field(default=None, compare=False, repr=False)
    """The body in the API server's binary form (`protobuf_writer`), for a transport to a server that reads it."""


@dataclass(frozen=True, slots=True)
class Response:
    """The answer, whatever its status."""

    status: int
    body: bytes
    retry_after: float | None = None
    content_type: str = JSON
    warnings: tuple[str, ...] = ()
    """Warning headers: messages of the server for the user, beside the result of the call."""


class Transport(Protocol):
    """Sends requests. Without a response, `send` and `stream` raise `errors.Unreachable` and nothing else."""

    async def send(self, request: Request) -> Response:
        """Send a request and return the whole response."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        """Send a request and yield lines in the batches in which they arrive. A refusal raises `StreamRejected`."""
        ...

    async def close(self) -> None:
        """Close connections. Idempotent."""
        ...


class StreamRejected(Exception):
    """A stream that was answered by a status instead of lines."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"status {response.status}")
        self.response = response
