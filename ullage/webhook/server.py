"""HTTPS server in front of the reviewer: limits on requests, and an answer in JSON to every request."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from ullage.kube.admission.reviews import refusal_status
from ullage.kube.admission.webhook_configs import MUTATE_PATH, VALIDATE_PATH
from ullage.observe.admission_metrics import AdmissionMetrics
from ullage.observe.probes import ListenAddress
from ullage.webhook.callers import ANYBODY, Callers
from ullage.webhook.reviewer import AdmissionReviewer, ReviewAnswer

_KEEP_ALIVE_SECONDS = 120.0
"""Longer than an API server keeps an idle connection: it must be the one to close it, or a call may be lost."""
_TOO_LARGE = (413, "RequestEntityTooLarge")
_TOO_SLOW = (408, "Timeout")
_UNKNOWN_CALLER = (401, "Unauthorized")


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits on request bodies: size, time and concurrency."""

    body: int = 7 << 20
    """Bytes. An API server takes objects of 3 MiB, and a review may hold two of them."""
    body_seconds: float = 5.0
    large: int = 64 << 10
    """Bytes. Bodies above this, or of unknown size, are read only a few at a time: memory is bounded by that."""
    large_at_once: int = 16


class _Pages:
    def __init__(
        self, reviewer: AdmissionReviewer, metrics: AdmissionMetrics, limits: RequestLimits, callers: Callers
    ) -> None:
        self._callers = callers
        self._reviewer = reviewer
        self._metrics = metrics
        self._limits = limits
        self._large = asyncio.Semaphore(limits.large_at_once)

    async def mutate(self, request: web.Request) -> web.Response:
        return await self._reviewed(request, "mutate", self._reviewer.mutate)

    async def validate(self, request: web.Request) -> web.Response:
        return await self._reviewed(request, "validate", self._reviewer.validate)

    async def _reviewed(
        self, request: web.Request, path: str, review: Callable[[bytes], Awaitable[ReviewAnswer]]
    ) -> web.Response:
        if unwanted := self._callers.refusal(request.get_extra_info("peercert")):
            return self._refused(path, _UNKNOWN_CALLER, unwanted)
        size = request.content_length
        if size is not None and size > self._limits.body:
            return self._refused(path, _TOO_LARGE, f"a review may have {self._limits.body} bytes, not {size}")
        if size is not None and size <= self._limits.large:
            return await self._answered(request, path, review)
        async with self._large:
            return await self._answered(request, path, review)

    async def _answered(
        self, request: web.Request, path: str, review: Callable[[bytes], Awaitable[ReviewAnswer]]
    ) -> web.Response:
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return self._refused(path, _TOO_LARGE, f"a review may have {self._limits.body} bytes")
        except TimeoutError:
            return self._refused(path, _TOO_SLOW, f"the review did not arrive within {self._limits.body_seconds:g} s")
        start = time.perf_counter()
        answered = await review(body)
        self._metrics.reviewed(path, answered.outcome, time.perf_counter() - start)
        return _json(answered.code, answered.body)

    def _refused(self, path: str, status: tuple[int, str], message: str) -> web.Response:
        code, reason = status
        self._metrics.reviewed(path, reason, 0.0)
        response = _json(code, refusal_status(code, reason, message))
        response.force_close()  # what is left of the body is not read
        return response


def _json(code: int, body: bytes) -> web.Response:
    return web.Response(status=code, body=body, content_type="application/json")


@asynccontextmanager
async def serving_reviews(
    address: ListenAddress,
    context: ssl.SSLContext,
    reviewer: AdmissionReviewer,
    metrics: AdmissionMetrics,
    limits: RequestLimits = RequestLimits(),  # noqa: B008 - frozen
    callers: Callers = ANYBODY,
) -> AsyncIterator[ListenAddress]:
    """Serve during the block; gives the address taken. Reviews under way are answered before it ends.

    Raises OSError if the address cannot be taken.
    """
    callers.ask_for_certificates(context)
    pages = _Pages(reviewer, metrics, limits, callers)
    app = web.Application(client_max_size=limits.body)
    app.add_routes([web.post(MUTATE_PATH, pages.mutate), web.post(VALIDATE_PATH, pages.validate)])
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        keepalive_timeout=_KEEP_ALIVE_SECONDS,
        lingering_time=1.0,
        shutdown_timeout=5.0,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, address.host, address.port, ssl_context=context, backlog=512).start()
        host, port, *_ = runner.addresses[0]
        yield ListenAddress(host, port)
    finally:
        await runner.cleanup()
