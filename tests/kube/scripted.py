"""A transport that answers from a script and remembers what it was asked, and when."""

import asyncio
import random
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ullage.kube.client.calling import RetryPolicy
from ullage.kube.client.rate import RateLimiter
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request, Response, StreamRejected

Answer = Response | Exception
Batch = Sequence[bytes] | Exception


@dataclass
class ScriptedTransport:
    """Answers in order; a test that asks once too often fails."""

    answers: list[Answer] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    streams_closed: int = 0
    closed: int = 0

    async def send(self, request: Request) -> Response:
        self._note(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def stream(self, request: Request) -> AsyncGenerator[Sequence[bytes], None]:
        self._note(request)
        try:
            for batch in self.batches:
                if isinstance(batch, Exception):
                    raise batch
                yield batch
        finally:
            self.streams_closed += 1

    async def close(self) -> None:
        self.closed += 1

    def _note(self, request: Request) -> None:
        self.requests.append(request)
        self.moments.append(asyncio.get_running_loop().time())

    @property
    def last_body(self) -> Any:
        return msgspec.json.decode(self.requests[-1].body or b"null")


def api_over(
    transport: ScriptedTransport, *, rate: RateLimiter | None = None, patience: RetryPolicy | None = None
) -> RestApi:
    return RestApi(transport, rng=random.Random(1), rate=rate, patience=patience or RetryPolicy())


def says(body: Any, status: int = 200, retry_after: float | None = None) -> Response:
    return Response(status, msgspec.json.encode(body), retry_after)


def status(code: int, reason: str = "", message: str = "", **details: Any) -> Response:
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return says(body | {"details": details}, code)


def a_pod(name: str, version: str = "1", **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n", "resourceVersion": version, **meta}}


def a_page(items: Iterable[dict[str, Any]], version: str, following: str = "", remaining: int = 0) -> Response:
    metadata = {"resourceVersion": version, "continue": following, "remainingItemCount": remaining}
    return says({"kind": "PodList", "metadata": metadata, "items": list(items)})


def an_event(kind: str, thing: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "object": thing})


def refused(response: Response) -> StreamRejected:
    return StreamRejected(response)
