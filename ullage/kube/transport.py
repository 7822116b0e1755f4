"""The seam between what we say to an API server and how it gets there.

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
    """The body in the API server's binary form (`kube.compact`), for a transport to a server that reads it."""


@dataclass(frozen=True, slots=True)
class Response:
    """The answer, whatever its status."""

    status: int
    body: bytes
    retry_after: float | None = None
    content_type: str = JSON
    warnings: tuple[str, ...] = ()
    """What the server wants the user to know though the call succeeded."""


class Transport(Protocol):
    """Two ways to ask. Both raise `errors.Unreachable` where there is no answer, and nothing else."""

    async def send(self, request: Request) -> Response:
        """Ask and get the whole answer."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        """Ask and get lines as they come, in the batches they came in. A refusal raises `Refused`."""
        ...

    async def close(self) -> None:
        """Let go of connections. Idempotent."""
        ...


class Refused(Exception):
    """A stream that was answered by a status instead of lines."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"status {response.status}")
        self.response = response
