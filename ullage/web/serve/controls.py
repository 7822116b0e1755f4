"""Controls of a page that may act: buttons of a demo. A dashboard of a live cluster has none, and serves none of this.

The page's own files come with the controls. A write must come from the page itself: the Origin header is required.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec
from aiohttp import web

from ullage.errors import UserError

Ask = Callable[[Callable[[], bytes]], Awaitable[bytes]]
"""Calls a function in the view's loop and returns its result."""

LARGEST_REQUEST = 4096
_read = msgspec.json.Decoder(dict[str, str]).decode


class Controls(Protocol):
    """Controls of one view. `state` and `act` are called in the view's loop."""

    @property
    def assets(self) -> Mapping[str, bytes]:
        """Files by name: `.js` and `.css` are also named in the page's head."""
        ...

    def state(self) -> bytes:
        """State of the controls, as JSON."""
        ...

    def act(self, verb: str, arguments: Mapping[str, str]) -> bytes:
        """Do what a button asks and return the state with a sentence of what was done. Raises UserError."""
        ...


class ControlPages:
    """Routes of the controls."""

    def __init__(self, controls: Controls, ask: Ask) -> None:
        self._controls = controls
        self._ask = ask

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/api/controls", self.state), web.post("/api/controls/{verb}", self.act)]

    def head(self) -> bytes:
        """Lines of the page's head that load the files."""
        tags = {
            "css": '<link rel="stylesheet" href="/static/{}">',
            "js": '<script type="module" src="/static/{}"></script>',
        }
        return "".join(
            f"{tags[name.rpartition('.')[2]].format(name)}\n" for name in sorted(self._controls.assets)
        ).encode()

    async def state(self, _: web.Request) -> web.Response:
        return _json(await self._ask(self._controls.state))

    async def act(self, request: web.Request) -> web.Response:
        origin = request.headers.get("Origin")
        if origin != f"{request.scheme}://{request.host}":
            return _refused(403, f"only this page's own buttons may act, and this came from {origin or 'no page'}")
        if request.content_type != "application/json":
            return _refused(415, "the request is not JSON")
        if (request.content_length or 0) > LARGEST_REQUEST:
            return _refused(413, "the request is too large")
        try:
            arguments = _read(await request.content.read(LARGEST_REQUEST))
        except msgspec.DecodeError as error:
            return _refused(400, f"the request cannot be read: {error}")
        verb = request.match_info["verb"]
        try:
            return _json(await self._ask(lambda: self._controls.act(verb, arguments)))
        except UserError as error:
            return _refused(409, str(error))


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _refused(status: int, sentence: str) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode({"error": sentence}), content_type="application/json")
