"""Requests as HTTP knows them, to requests as the simulated server knows them, and its answers back."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeVar

import structlog
from aiohttp import web

from ullage.kube.client.transport import JSON, Request, Response
from ullage.sim.apiserver.request.status_errors import StatusError
from ullage.sim.apiserver.server import SimulatedApiServer, is_watch
from ullage.sim.apiserver.storage.watchers import Watcher
from ullage.sim.http.access import HttpAccess
from ullage.sim.http.bridge import BridgeClosed, LoopBridge
from ullage.sim.http.watch_streams import WatchStreams, endless

T = TypeVar("T")

_log = structlog.get_logger(__name__)
_WRITES = ("POST", "PUT", "PATCH")
_IMPERSONATE = "Impersonate-User"
_LONGEST_MANAGER = 128


class HttpApi:
    """Lives on the loop of the sockets; what it asks of the server happens on the other side of the bridge."""

    def __init__(self, server: SimulatedApiServer, bridge: LoopBridge, doorkeeper: HttpAccess, user: str) -> None:
        self._server = server
        self._bridge = bridge
        self._doorkeeper = doorkeeper
        self._user = user
        self._streams = WatchStreams(self._ask)

    def close(self) -> None:
        """End the watches that are open."""
        self._streams.close()

    async def handle(self, asked: web.Request) -> web.StreamResponse:
        refusal = self._doorkeeper.refusal(asked)
        if refusal is not None:
            return http_response(refusal)
        try:
            request = await understood(asked)
            user = asked.headers.get(_IMPERSONATE) or self._user
            if is_watch(request):
                return await self._watch(asked, request, user)
            return http_response(await self._ask(lambda: self._server.handle(request, user)))
        except web.HTTPRequestEntityTooLarge:
            return http_response(StatusError(413, "RequestEntityTooLarge", "the request is too large").response())
        except BridgeClosed:
            return http_response(StatusError(503, "ServiceUnavailable", "the simulated cluster is ending").response())
        except web.HTTPException:
            raise
        except Exception as error:  # noqa: BLE001 - a mistake of ours is told to the client, and does not end the server
            _log.exception("a request to the simulated API failed", method=asked.method, path=asked.path)
            message = f"Internal error occurred: {type(error).__name__}: {error}"
            return http_response(StatusError(500, "InternalError", message).response())

    async def _watch(self, asked: web.Request, request: Request, user: str) -> web.StreamResponse:
        bell = self._streams.new_bell()

        def opened() -> Watcher | Response:
            found = self._server.open_watch(endless(request), user)
            if isinstance(found, Watcher):
                found.wake = bell.ring
            return found

        found = await self._ask(opened)
        if isinstance(found, Response):
            return http_response(found)
        return await self._streams.carry(asked, request, found, bell)

    async def _ask(self, work: Callable[[], T]) -> T:
        """Raises BridgeClosed if the server's loop no longer answers."""
        future: Future[T] = self._bridge.ask(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if future.cancelled() and not _being_cancelled():
                raise BridgeClosed from None
            raise


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def understood(asked: web.Request) -> Request:
    """The request as the simulated server takes it. Parameters a writer leaves out get the real server's defaults."""
    query = {name: value for name, value in asked.query.items() if value or name not in ("dryRun", "fieldManager")}
    if asked.method in _WRITES:
        query.setdefault("fieldValidation", "Warn")
        if "apply-patch" not in asked.content_type:
            query.setdefault("fieldManager", _agent(asked))
    body = await asked.read() if asked.can_read_body else None
    request = Request(asked.method, asked.path, query, body, asked.headers.get("Content-Type") or JSON)
    return replace(request, accept=asked.headers.get("Accept") or "*/*")


def _agent(asked: web.Request) -> str:
    """Field manager of a write that names none: the program, from the User-Agent."""
    return asked.headers.get("User-Agent", "").partition("/")[0][:_LONGEST_MANAGER] or "unknown"


def http_response(response: Response) -> web.Response:
    headers = {"Content-Type": response.content_type, "Cache-Control": "no-cache, private"}
    if response.retry_after is not None:
        headers["Retry-After"] = f"{response.retry_after:.0f}"
    answer = web.Response(status=response.status, body=response.body, headers=headers)
    for warning in response.warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        answer.headers.add("Warning", f'299 - "{quoted}"')
    return answer
