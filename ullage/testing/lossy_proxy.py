"""Lossy HTTP proxy on loopback: loses responses to requests that were performed, requests, and whole streams.

It stands between a program under test and an API server. It speaks plain HTTP to the program, and the given `Transport`
to the server. The fate of a request depends on the seed and on the request, not on its time.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from ullage.errors import Unreachable
from ullage.kube.client.transport import JSON, Request, Response, StreamRejected, Transport
from ullage.kube.client.watch_decoder import closed_after


class RequestFate(StrEnum):
    """Fates of a request that is not answered normally. The program under test sees a broken connection each time."""

    ANSWER_LOST = "answer-lost"
    """The server has done it."""
    LATE = "late"
    """The server does it, some time after the program was cut off."""
    REQUEST_LOST = "request-lost"
    """The server never gets the request."""
    STREAM_CUT = "stream-cut"
    """The stream was answered for a while."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Requests concerned, and the odds of each fate. If several losses concern a request, the first counts."""

    concerns: Callable[[Request], bool]
    answer_lost: float = 0.0
    late: float = 0.0
    request_lost: float = 0.0
    stream_cut: float = 0.0
    """Odds per batch of lines of a stream."""
    latest: float = 1.5
    """Seconds a late request may be under way."""

    def fate(self, chance: random.Random) -> RequestFate | None:
        draw = chance.random()
        odds = (
            (RequestFate.ANSWER_LOST, self.answer_lost),
            (RequestFate.LATE, self.late),
            (RequestFate.REQUEST_LOST, self.request_lost),
        )
        for fate, share in odds:
            draw -= share
            if draw < 0:
                return fate
        return None


def is_bind(request: Request) -> bool:
    """POST of a pod's binding."""
    return request.method == "POST" and request.path.endswith("/binding")


def is_write(request: Request) -> bool:
    """Anything that changes something."""
    return request.method != "GET"


_NO_LOSS = Loss(lambda _: True)


class LossyProxy:
    """Serves inside its `async with` block. Closes the transport it was given."""

    def __init__(self, upstream: Transport, *losses: Loss, seed: int = 0) -> None:
        self._upstream = upstream
        self._losses = losses
        self._seed = seed
        self._seen: Counter[str] = Counter()
        self._late: set[asyncio.Task[None]] = set()
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None), shutdown_timeout=0.1)
        self.fates: Counter[RequestFate] = Counter()
        """Number of requests by fate so far."""
        self.server = ""

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.server = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        for task in self._late:
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)
        await self._upstream.close()

    def write_kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that leads through the proxy; the upstream transport decides the user."""
        named = {"name": "lossy"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [named | {"cluster": {"server": self.server}}],
            "users": [named | {"user": {}}],
            "contexts": [named | {"context": {"cluster": "lossy", "user": "lossy"}}],
            "current-context": "lossy",
        }
        path.write_text(json.dumps(config))
        return path

    async def _serve(self, asked: web.BaseRequest) -> web.StreamResponse:
        request = await _request_of(asked)
        chance = self._chance_of(request)
        loss = next((loss for loss in self._losses if loss.concerns(request)), _NO_LOSS)
        try:
            if request.query.get("watch") in ("true", "1"):
                return await self._relay_stream(asked, request, loss, chance)
            fate = loss.fate(chance)
            if fate is None:
                return _written(await self._upstream.send(request))
            self.fates[fate] += 1
            if fate is RequestFate.LATE:
                self._send_later(request, chance.uniform(0.0, loss.latest))
            elif fate is RequestFate.ANSWER_LOST:
                await self._upstream.send(request)
        except Unreachable:
            pass  # the program sees what we see: a connection that breaks
        return _cut_off(asked)

    def _chance_of(self, request: Request) -> random.Random:
        """The dice of the n-th request of this kind."""
        name = f"{request.method} {request.path}"
        self._seen[name] += 1
        return random.Random(f"{self._seed} {name} {self._seen[name]}")

    def _send_later(self, request: Request, seconds: float) -> None:
        async def send() -> None:
            await asyncio.sleep(seconds)
            with suppress(Unreachable):
                await self._upstream.send(request)

        task = asyncio.create_task(send())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _relay_stream(
        self, asked: web.BaseRequest, request: Request, loss: Loss, chance: random.Random
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": JSON})
        answer.enable_chunked_encoding()
        try:
            async with closed_after(self._upstream.stream(request)) as batches:
                async for lines in batches:
                    if chance.random() < loss.stream_cut:
                        self.fates[RequestFate.STREAM_CUT] += 1
                        return _cut_off(asked)
                    if not answer.prepared:
                        await answer.prepare(asked)
                    await answer.write(b"".join(line + b"\n" for line in lines))
        except StreamRejected as refused:
            return _written(refused.response)
        except ConnectionError:
            return answer
        return answer


async def _request_of(asked: web.BaseRequest) -> Request:
    body = await asked.read() if asked.can_read_body else None
    kind = asked.headers.get("Content-Type", JSON)
    seconds = float(asked.query.get("timeoutSeconds", "0")) + 30.0
    return Request(asked.method, asked.path, dict(asked.query), body, kind, timeout=seconds)


def _written(response: Response) -> web.Response:
    headers = {"Content-Type": JSON}
    if response.retry_after is not None:
        headers["Retry-After"] = str(int(response.retry_after))
    return web.Response(status=response.status, body=response.body, headers=headers)


def _cut_off(asked: web.BaseRequest) -> web.Response:
    """End the connection without another byte. The returned response is not sent."""
    if asked.transport is not None:
        asked.transport.abort()
    return web.Response(status=500)
