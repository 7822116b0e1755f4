"""HTTP routes of the dashboard: static files and the patch stream. What is asked once is in `questions`.

GET only; nothing changes anything, except the controls of a demo (`controls`).
"""

import asyncio
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePosixPath

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ullage.web.serve.access import COOKIE, TokenGate, host_is_meant
from ullage.web.serve.controls import ControlPages
from ullage.web.serve.hub import PatchHub, TooMany
from ullage.web.serve.questions import PageQuestions

TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
BAD = 400
QUIET = 15.0
"""Seconds without a patch after which a comment is sent on the stream."""
PATIENCE = 10.0
"""Seconds a browser may take to accept a write."""


@dataclass(frozen=True, slots=True)
class DashboardPages:
    """Dependencies of the pages."""

    hub: PatchHub
    questions: PageQuestions
    gate: TokenGate
    host: str
    """Host the server listens on."""
    assets: dict[str, tuple[bytes, str]] = field(default_factory=lambda: read_assets())
    controls: ControlPages | None = None
    """Of a demo's page only."""


def read_assets() -> dict[str, tuple[bytes, str]]:
    """Static files of the package, with their types, by name."""
    folder = resources.files("ullage.web") / "static"
    return with_types({one.name: one.read_bytes() for one in sorted(folder.iterdir(), key=lambda one: one.name)})


def with_types(files: Mapping[str, bytes]) -> dict[str, tuple[bytes, str]]:
    """Files of known types, with their types, by name."""
    return {
        name: (content, TYPES[suffix])
        for name, content in files.items()
        if (suffix := PurePosixPath(name).suffix) in TYPES
    }


def application(site: DashboardPages) -> web.Application:
    """aiohttp application of the dashboard."""
    pages = _Pages(site)
    app = web.Application(middlewares=[_guarded(site)])
    app.add_routes(
        [
            web.get("/", pages.index),
            web.get("/healthz", pages.health),
            web.get("/static/{name}", pages.asset),
            web.get("/api/stream", pages.stream),
            web.get("/api/snapshot", pages.snapshot),
            *site.questions.routes(),
            *(site.controls.routes() if site.controls is not None else ()),
        ]
    )
    return app


def _guarded(site: DashboardPages) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await _admitted(site, request, handler)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    return guard


async def _admitted(site: DashboardPages, request: web.Request, handler: Handler) -> web.StreamResponse:
    """Handle requests that are admitted; tell all others how to get access."""
    if site.gate.open and not host_is_meant(request.host, site.host):
        return web.Response(status=421, text="this is not the address this dashboard listens on\n")
    token = request.query.get("token")
    if token is not None and request.path == "/" and site.gate.knows(token):
        return _cookied(site.gate)
    if request.path != "/healthz" and not site.gate.admits(request.headers, request.cookies):
        answer = web.Response(status=401, text="open this page once with ?token=..., or send Authorization: Bearer\n")
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer
    try:
        return await handler(request)
    except web.HTTPException as error:
        return web.Response(status=error.status, text=error.text if error.status == BAD else f"{error.reason}\n")


def _cookied(gate: TokenGate) -> web.Response:
    """Set the cookie and redirect to an address without the token, so that histories and logs do not keep it."""
    answer = web.Response(status=303, headers={"Location": "/"})
    if not gate.open:
        answer.set_cookie(COOKIE, gate.cookie, httponly=True, samesite="Strict", path="/")
    return answer


def _hang_up(transport: asyncio.Transport) -> None:
    """Close the connection at once, dropping data that the browser has not read from the kernel's buffer."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class _Pages:
    def __init__(self, site: DashboardPages) -> None:
        self._site = site

    async def index(self, _: web.Request) -> web.Response:
        return self._file("index.html")

    async def asset(self, request: web.Request) -> web.Response:
        return self._file(request.match_info["name"])

    async def health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def snapshot(self, _: web.Request) -> web.Response:
        return web.Response(body=self._site.hub.snapshot(), content_type="application/json")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: a snapshot, or the missed patches; then patches as they come."""
        last = request.headers.get("Last-Event-ID") or request.query.get("last", "")
        try:
            with self._site.hub.listening(last) as listener:
                answer = web.StreamResponse(headers=HEADERS | {"Content-Type": "text/event-stream"})
                await answer.prepare(request)
                await answer.write(b"retry: 1000\n\n")
                async for frame in listener.frames(QUIET):
                    async with asyncio.timeout(PATIENCE):
                        await answer.write(frame)
        except TooMany as error:
            return web.Response(status=503, text=f"{error}\n", headers={"Retry-After": "10"})
        except (TimeoutError, ConnectionError):
            pass  # the browser is gone or reads too slowly
        if request.transport is not None:
            _hang_up(request.transport)
        return answer

    def _file(self, name: str) -> web.Response:
        found = self._site.assets.get(name)
        if found is None:
            return web.Response(status=404, text="there is no such page\n")
        return web.Response(body=found[0], content_type=found[1], charset="utf-8")
