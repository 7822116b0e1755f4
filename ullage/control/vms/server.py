"""HTTPS servers of the VM system: permits for agents on one port, the ledger on another. Only the leader serves.

Messages and their checks are in `protocol.vm_permits`, decisions in VmCore; here are sockets, limits and callers.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from ullage.clock import Clock
from ullage.control.vms.callers import CallerRefused, TokenCallers
from ullage.control.vms.permits import PermitHandler
from ullage.model.units import Seconds
from ullage.model.vm import VmRefusal
from ullage.observe.probes import ListenAddress
from ullage.observe.vm_metrics import VmSystemMetrics
from ullage.protocol.vm_permits import MAX_BODY, rejection

_BODY_SECONDS = 5.0
_KEEP_ALIVE_SECONDS = Seconds(75.0)
"""Longer than the time between two requests of an agent, so that it keeps its connection."""
NOT_THE_LEADER = CallerRefused(503, "not the leader")
_STATE_METHODS = ("GET", "HEAD")


class PermitServer:
    """Answers agents. Without callers, agents are not told apart and may speak for any VM."""

    def __init__(
        self,
        handler: PermitHandler,
        callers: TokenCallers | None,
        metrics: VmSystemMetrics,
        clock: Clock,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._handler = handler
        self._callers = callers
        self._metrics = metrics
        self._clock = clock
        self._leads = leads

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer one request."""
        began = self._clock.steady()
        node: str | None = None
        if self._callers is not None:
            caller = await self._callers.agent_node(request.headers.get("Authorization"))
            if isinstance(caller, CallerRefused):
                return self._refused(caller, began, request)
            node = caller
        if not self._leads():
            return self._refused(NOT_THE_LEADER, began, request)
        body = await _body(request) if request.method == "POST" else b""
        if body is None:
            too_long = rejection(VmRefusal.BAD_JSON)
            return self._refused(CallerRefused(too_long.status, too_long.text), began, request, too_long.reason)
        answered = await self._handler.handle(request.method, body, node=node)
        if answered.status < 300 and not self._leads():
            # Another replica may have granted this room meanwhile.
            return self._refused(NOT_THE_LEADER, began, request)
        self._metrics.answered(answered.status, answered.reason, self._clock.steady() - began)
        return web.Response(status=answered.status, body=answered.body, content_type=answered.content_type)

    def _refused(
        self, why: CallerRefused, began: float, request: web.BaseRequest, reason: VmRefusal | None = None
    ) -> web.Response:
        counted = reason or (VmRefusal.NOT_LEADER if why is NOT_THE_LEADER else VmRefusal.CALLER_REFUSED)
        self._metrics.answered(why.status, counted, self._clock.steady() - began)
        response = _text(why)
        if request.can_read_body:
            response.force_close()  # what is left of the body is not read
        return response


class StateServer:
    """Shows the ledger to callers that a SubjectAccessReview admits."""

    def __init__(self, document: Callable[[], dict[str, Any]], callers: TokenCallers) -> None:
        self._document = document
        self._callers = callers

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer one request."""
        refused = await self._callers.may_read_state(request.headers.get("Authorization"))
        if refused is not None:
            return _text(refused)
        if request.path != "/state":
            return _text(CallerRefused(404, "the ledger is at /state"))
        if request.method not in _STATE_METHODS:
            return _text(CallerRefused(405, "must be GET"))
        body = msgspec.json.encode(self._document(), order="deterministic")
        return web.Response(body=body, content_type="application/json")


@asynccontextmanager
async def serving_vms(
    address: ListenAddress,
    context: ssl.SSLContext | None,
    answer: Callable[[web.BaseRequest], Any],
) -> AsyncIterator[ListenAddress]:
    """Serve during the block; gives the address taken. Without a context: plain HTTP. Raises OSError."""
    runner = web.ServerRunner(
        web.Server(answer, access_log=None, keepalive_timeout=_KEEP_ALIVE_SECONDS, lingering_time=1.0),
        handle_signals=False,
        shutdown_timeout=5.0,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, address.host, address.port, ssl_context=context, backlog=512).start()
        host, port, *_ = runner.addresses[0]
        yield ListenAddress(host, port)
    finally:
        await runner.cleanup()


async def _body(request: web.BaseRequest) -> bytes | None:
    """The body; None if it is too long or does not arrive."""
    if request.content_length is not None and request.content_length > MAX_BODY:
        return None
    read = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while chunk := await request.content.read(MAX_BODY + 1 - len(read)):
                read += chunk
                if len(read) > MAX_BODY:
                    return None
    except (TimeoutError, ValueError, ConnectionError):
        return None
    return read


def _text(why: CallerRefused) -> web.Response:
    return web.Response(status=why.status, text=why.text, content_type="text/plain")
