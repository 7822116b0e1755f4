"""Controls of a page over HTTP: only the page itself may act, and a dashboard without controls has no trace of them."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import pytest

from ullage.clock import WallClock
from ullage.errors import UserError
from ullage.observe.probes import ListenAddress
from ullage.web.live import LiveView, served


class Buttons:
    """Controls that note what they are asked to do."""

    assets: Mapping[str, bytes] = {"buttons.js": b"// buttons", "buttons.css": b"b {}"}

    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, str]]] = []

    def state(self) -> bytes:
        return json.dumps({"done": len(self.done)}).encode()

    def act(self, verb: str, arguments: Mapping[str, str]) -> bytes:
        if verb == "fly":
            raise UserError("this demo cannot fly")
        self.done.append((verb, dict(arguments)))
        return self.state()


@asynccontextmanager
async def page_with(buttons: Buttons | None) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    view = LiveView(WallClock(), title="test")
    async with served(view, ListenAddress("127.0.0.1", 0), controls=buttons) as url, aiohttp.ClientSession() as session:
        yield url, session


async def test_the_page_asks_and_is_told_what_was_done() -> None:
    buttons = Buttons()
    async with page_with(buttons) as (url, session):
        async with session.get(url) as answer:
            page = await answer.text()
        assert page.index("/static/buttons.css") < page.index("/static/buttons.js") < page.index("</head>")
        async with session.get(f"{url}static/buttons.js") as answer:
            assert (answer.content_type, await answer.read()) == ("text/javascript", b"// buttons")
        asked = session.post(f"{url}api/controls/pause", json={"node": "a"}, headers={"Origin": url.rstrip("/")})
        async with asked as answer:
            assert (answer.status, await answer.json()) == (200, {"done": 1})
        async with session.post(f"{url}api/controls/fly", json={}, headers={"Origin": url.rstrip("/")}) as answer:
            assert (answer.status, await answer.json()) == (409, {"error": "this demo cannot fly"})
    assert buttons.done == [("pause", {"node": "a"})]


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        pytest.param({"Origin": "https://example.test"}, b"{}", 403, id="another-page"),
        pytest.param({"Origin": "null"}, b"{}", 403, id="a-page-without-an-origin"),
        pytest.param({}, b"{}", 403, id="no-page-at-all"),
        pytest.param({"Origin": "OWN", "Content-Type": "text/plain"}, b"{}", 415, id="a-form"),
        pytest.param({"Origin": "OWN"}, b'{"node": 1}', 400, id="no-strings"),
        pytest.param({"Origin": "OWN"}, b'{"node": "' + b"x" * 5000 + b'"}', 413, id="too-large"),
        pytest.param({"Origin": "OWN", "Host": "evil.test"}, b"{}", 421, id="another-name-for-this-machine"),
    ],
)
async def test_nobody_else_may_act(headers: dict[str, str], body: bytes, status: int) -> None:
    buttons = Buttons()
    async with page_with(buttons) as (url, session):
        said = {"Content-Type": "application/json"} | headers
        if said.get("Origin") == "OWN":
            said["Origin"] = url.rstrip("/")
        async with session.post(f"{url}api/controls/pause", data=body, headers=said) as answer:
            assert answer.status == status, await answer.text()
    assert buttons.done == []


async def test_a_dashboard_without_controls_has_no_trace_of_them() -> None:
    async with page_with(None) as (url, session):
        async with session.get(url) as answer:
            assert "buttons" not in await answer.text()
        async with session.get(f"{url}api/controls") as answer:
            assert answer.status == 404
        origin = {"Origin": url.rstrip("/")}
        async with session.post(f"{url}api/controls/pause", json={}, headers=origin) as answer:
            assert answer.status == 404
