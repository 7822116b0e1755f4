"""The dashboard over HTTP: the stream, explanations, who may look, and that nothing is left of it afterwards."""

import asyncio
import json
import re
import select
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.web.worlds import NOW, World
from ullage.clock import Instant, WallClock
from ullage.errors import UserError
from ullage.observe.probes import ListenAddress
from ullage.web.live import LiveView, served
from ullage.web.serve import hub, pages

TOKEN = "correct-horse-battery"


class StandingClock(WallClock):
    """A moment that does not pass, so that facts of it stay fresh."""

    def now(self) -> Instant:
        return Instant(NOW)


class Show:
    """A view with a world behind it, served."""

    def __init__(self) -> None:
        self.view = LiveView(StandingClock(), title="test")
        self.world = World(self.view.observe)
        self.world.node("n")
        self.world.pod("waits", gpus=16)
        self.url = ""


@pytest.fixture
async def show() -> AsyncIterator[Show]:
    show = Show()
    async with served(show.view, ListenAddress("127.0.0.1", 0)) as url:
        show.url = url
        yield show


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    # No jar: it would leave out cookies of addresses that have no name.
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(cookie_jar=jar, timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


async def events(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
    """Id, kind and data of each event of a stream."""
    fields: dict[str, str] = {}
    async for raw in answer.content:
        line = raw.decode().rstrip("\n")
        if not line:
            if "data" in fields:
                yield fields["id"], fields["event"], json.loads(fields["data"])
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


async def test_a_snapshot_then_what_changes(show: Show, session: aiohttp.ClientSession) -> None:
    async with session.get(f"{show.url}api/stream") as answer:
        assert answer.content_type == "text/event-stream"
        stream = events(answer)
        _, kind, said = await anext(stream)
        assert (kind, said["nodes"]["n"]["states"]) == ("snapshot", "ffffffff")
        show.world.pod("a", gpus=2, node="n", ids=(0, 1))
        async for _, kind, said in stream:
            assert kind == "patch"
            if "nodes" in said:
                break
        assert {name: row["states"] for name, row in said["nodes"].items()} == {"n": "llffffff"}


async def test_who_comes_back_goes_on_where_it_was(show: Show, session: aiohttp.ClientSession) -> None:
    async with session.get(f"{show.url}api/stream") as answer:
        last, _, _ = await anext(events(answer))
    show.world.pod("a", gpus=2, node="n", ids=(0, 1))
    async with session.get(f"{show.url}api/stream", headers={"Last-Event-ID": last}) as answer:
        found = False
        async for _, kind, said in events(answer):
            assert kind == "patch"
            found = "n" in said.get("nodes", {})
            if found:
                break
        assert found


async def test_who_comes_from_another_run_gets_everything(show: Show, session: aiohttp.ClientSession) -> None:
    async with session.get(f"{show.url}api/stream", headers={"Last-Event-ID": "other.5"}) as answer:
        _, kind, _ = await anext(events(answer))
        assert kind == "snapshot"


async def test_who_does_not_read_is_dropped(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PATIENCE", 0.5)
    monkeypatch.setattr(hub, "MOST_BEHIND", 3)
    port = int(show.url.rsplit(":", 1)[1].strip("/"))
    with socket.create_connection(("127.0.0.1", port)) as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for step in range(200):
            show.view.caption = f"{step} " + "long " * 100_000
            show.world.pod("again", gpus=1 + step % 8)
            await asyncio.sleep(0.1)
            if _is_closed(silent):
                return
    pytest.fail("a browser that never read was kept")


def _is_closed(connection: socket.socket) -> bool:
    """Whether the other side hung up, without reading anything."""
    poll = select.poll()
    poll.register(connection, select.POLLHUP | select.POLLERR | select.POLLRDHUP)
    return bool(poll.poll(0))


async def test_a_pod_is_explained(show: Show, session: aiohttp.ClientSession) -> None:
    async with session.get(f"{show.url}api/explain/team/waits") as answer:
        said = await answer.json()
    assert (said["pod"], said["verdict"]) == ("team/waits", "Unschedulable")
    assert [(group["reason"], group["nodes"]) for group in said["groups"]] == [("NodeTooSmall", ["n"])]
    async with session.get(f"{show.url}api/explain/team/nobody") as answer:
        assert (answer.status, await answer.text()) == (404, "there is no pod team/nobody\n")


@pytest.mark.parametrize("path", ["", "static/main.js", "api/snapshot", "api/stream", "static/none.js", "nowhere"])
async def test_every_answer_forbids_what_the_page_does_not_need(
    show: Show, session: aiohttp.ClientSession, path: str
) -> None:
    async with session.get(f"{show.url}{path}") as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_written(show: Show, session: aiohttp.ClientSession, method: str) -> None:
    for path in ("", "api/snapshot", "api/explain/team/waits"):
        async with session.request(method, f"{show.url}{path}") as answer:
            assert answer.status == 405


async def test_files_outside_are_not_served(show: Show, session: aiohttp.ClientSession) -> None:
    for name in ("..%2fview%2fnodes.py", "%2e%2e%2f__init__.py", "__init__.py"):
        async with session.get(f"{show.url}static/{name}") as answer:
            assert answer.status == 404


async def test_a_name_that_is_not_ours_gets_nothing(show: Show, session: aiohttp.ClientSession) -> None:
    async with session.get(f"{show.url}api/snapshot", headers={"Host": "evil.example"}) as answer:
        assert answer.status == 421


async def test_with_a_token_nothing_is_shown_without_it(session: aiohttp.ClientSession) -> None:
    show = Show()
    async with served(show.view, ListenAddress("127.0.0.1", 0), TOKEN) as url:
        for path in ("", "static/main.js", "api/snapshot", "api/stream", "api/explain/team/waits", "?token=wrong"):
            async with session.get(f"{url}{path}") as answer:
                assert answer.status == 401, path
                assert "team" not in await answer.text()
        async with session.get(f"{url}healthz") as answer:
            assert answer.status == 200
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        async with session.get(f"{url}api/snapshot", headers=bearer) as answer:
            assert "team/waits" in (await answer.json())["pending"]


async def test_a_token_in_the_address_becomes_a_cookie(session: aiohttp.ClientSession) -> None:
    async with served(Show().view, ListenAddress("127.0.0.1", 0), TOKEN) as url:
        async with session.get(url, params={"token": TOKEN}, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
        async with session.get(f"{url}api/snapshot", headers={"Cookie": cookie.split(";")[0]}) as answer:
            assert answer.status == 200


async def test_other_machines_are_not_let_in_without_a_token() -> None:
    with pytest.raises(UserError, match="a token is needed"):
        async with served(Show().view, ListenAddress("0.0.0.0", 0)):
            pass


async def test_an_address_that_is_taken_is_an_error(show: Show) -> None:
    port = int(show.url.rsplit(":", 1)[1].strip("/"))
    with pytest.raises(OSError, match=re.escape(str(port))):
        async with served(Show().view, ListenAddress("127.0.0.1", port)):
            pass


async def test_nothing_is_left_when_it_ends(session: aiohttp.ClientSession) -> None:
    before = threading.active_count()
    async with served(Show().view, ListenAddress("127.0.0.1", 0)) as url:
        answer = await session.get(f"{url}api/stream")
        await anext(events(answer))
    assert threading.active_count() == before
    answer.close()
    with pytest.raises(aiohttp.ClientConnectorError):
        await session.get(url)
