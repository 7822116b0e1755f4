"""The simulated server over HTTP: on every kind of loop, for everybody who may come in, and gone when it is over."""

import asyncio
import io
import json
import socket
import ssl
import stat
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ullage.clock import WallClock
from ullage.errors import UserError
from ullage.kube.auth.connect import connect
from ullage.kube.client.resources import CONFIG_MAPS, NAMESPACES
from ullage.kube.client.transport import Request, Response
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.request.authorization import AuthorizationRequest
from ullage.sim.apiserver.storage.watchers import Watcher
from ullage.sim.http import ListenAddress, ServedCluster, ServeOptions, serving
from ullage.sim.scaled_time import run_scaled
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_pod

MAPS = "/api/v1/namespaces/default/configmaps"
JSON = {"Content-Type": "application/json"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
def server() -> SimulatedApiServer:
    return SimulatedApiServer(WallClock(), seed=1)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("HTTP of")]


def is_open(address: ListenAddress) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address.host, address.port)) == 0


def read(url: str, headers: dict[str, str] | None = None, context: ssl.SSLContext | None = None) -> Any:
    """For threads; loops use a session."""
    with urllib.request.urlopen(
        urllib.request.Request(url, headers=headers or {}), context=context, timeout=20
    ) as answer:
        return json.load(answer)


async def test_the_kubeconfig_is_enough_and_private(server: SimulatedApiServer) -> None:
    async with serving(server) as served:
        assert stat.S_IMODE(served.kubeconfig.stat().st_mode) == 0o600
        api = connect(served.kubeconfig)
        names = [one.metadata.name for one in (await api.list(NAMESPACES)).items]
        await api.close()
    assert "default" in names


async def test_nothing_is_left_behind(server: SimulatedApiServer) -> None:
    async with serving(server) as served:
        assert (is_open(served.address), len(threads())) == (True, 1)
    assert (is_open(served.address), served.kubeconfig.parent.exists(), threads()) == (False, False, [])


async def test_nothing_is_left_behind_by_a_failure(server: SimulatedApiServer, tmp_path: Path) -> None:
    path, addresses = tmp_path / "config", []

    async def fail() -> None:
        async with serving(server, ServeOptions(kubeconfig=path)) as served:
            addresses.append(served.address)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert (is_open(addresses[0]), path.exists(), threads()) == (False, False, [])


async def test_a_taken_address_is_said(server: SimulatedApiServer) -> None:
    async with serving(server) as served:
        with pytest.raises(UserError, match=f"cannot listen on {served.address}"):
            async with serving(server, ServeOptions(address=served.address)):
                pass


async def test_a_kubeconfig_that_cannot_be_written_is_said(server: SimulatedApiServer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write the kubeconfig"):
        async with serving(server, ServeOptions(kubeconfig=tmp_path / "nowhere" / "config")):
            pass
    assert threads() == []


async def test_watches_end_with_the_server(server: SimulatedApiServer, session: aiohttp.ClientSession) -> None:
    async with serving(server) as served:
        answer = await session.get(f"{served.url}{MAPS}?watch=true")
        assert answer.status == 200
    async with asyncio.timeout(5):
        assert await answer.read() == b""


class NotingServer(SimulatedApiServer):
    """Remembers the watchers it opened, to see what becomes of them."""

    opened: list[Watcher]

    def open_watch(self, request: Request, user: str = "system:admin") -> Watcher | Response:
        found = super().open_watch(request, user)
        self.opened = [found] if isinstance(found, Watcher) else []
        return found


async def test_a_client_that_goes_is_let_go(session: aiohttp.ClientSession) -> None:
    server = NotingServer(WallClock())
    async with serving(server) as served:
        answer = await session.get(f"{served.url}{MAPS}?watch=true")
        answer.close()
        async with asyncio.timeout(10):
            while not server.opened[0].closed:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)


async def test_many_ask_at_once(server: SimulatedApiServer, session: aiohttp.ClientSession) -> None:
    async with serving(server) as served:

        async def make(number: int) -> int:
            body = {"metadata": {"name": f"m{number}"}, "data": {"n": str(number)}}
            async with session.post(served.url + MAPS, json=body) as answer:
                return answer.status

        assert set(await asyncio.gather(*(make(number) for number in range(60)))) == {201}
        async with session.get(served.url + MAPS) as answer:
            assert len((await answer.json())["items"]) == 60


async def test_a_body_too_large_is_refused(server: SimulatedApiServer, session: aiohttp.ClientSession) -> None:
    async with serving(server) as served:
        body = json.dumps({"metadata": {"name": "m"}, "data": {"x": "y" * 4_000_000}})
        async with session.post(served.url + MAPS, data=io.BytesIO(body.encode())) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (413, "RequestEntityTooLarge")


async def test_names_of_others_are_not_answered_on_loopback(
    server: SimulatedApiServer, session: aiohttp.ClientSession
) -> None:
    async with serving(server) as served:
        for name, status in (("evil.example", 403), ("localhost:1", 200), ("[::1]:80", 200), ("127.0.0.1", 200)):
            async with session.get(served.url + "/version", headers={"Host": name}) as answer:
                assert answer.status == status, name


@pytest.mark.parametrize("kind", [None, "text/plain", "application/json"], ids=["untyped", "text", "json"])
@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://evil.example", 403), ("null", 403), ("http://127.0.0.1:1", 403), ("itself", 201), (None, 201)],
    ids=["another-site", "a-sandbox", "another-port", "itself", "no-browser"],
)
async def test_pages_of_others_write_nothing_on_loopback(
    server: SimulatedApiServer, session: aiohttp.ClientSession, kind: str | None, origin: str | None, status: int
) -> None:
    """A browser sends such a write without asking first; it does say whose page it is from."""
    async with serving(server) as served:
        said = {"Origin": served.url if origin == "itself" else origin} if origin else {}
        typed = {"Content-Type": kind} if kind else {}
        untyped = () if kind else ("Content-Type",)
        body = json.dumps({"metadata": {"name": "m"}}).encode()
        async with session.post(
            served.url + MAPS, data=body, headers={**said, **typed}, skip_auto_headers=untyped
        ) as answer:
            assert answer.status == (415 if status == 201 and kind == "text/plain" else status)


def only_admins(asked: AuthorizationRequest) -> bool:
    return asked.user == "system:admin"


async def test_users_can_be_impersonated(session: aiohttp.ClientSession) -> None:
    async with serving(SimulatedApiServer(WallClock(), authorise=only_admins)) as served:
        async with session.get(served.url + MAPS) as answer:
            assert answer.status == 200
        async with session.get(served.url + MAPS, headers={"Impersonate-User": "mallory"}) as answer:
            assert (answer.status, "mallory" in (await answer.json())["message"]) == (403, True)


async def test_others_than_loopback_need_the_token(server: SimulatedApiServer) -> None:
    async with serving(server, ServeOptions(address=ListenAddress("0.0.0.0", 0))) as served:
        assert (served.url.startswith("https://127.0.0.1:"), len(served.token) > 30) == (True, True)
        api = connect(served.kubeconfig)
        assert len((await api.list(CONFIG_MAPS, "default")).items) == 0
        await api.close()
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {served.token}"}):
            with pytest.raises(urllib.error.HTTPError) as caught:
                await asyncio.to_thread(read, served.url + "/version", headers, trusting)
            assert caught.value.code == 401
            caught.value.close()
        said = await asyncio.to_thread(
            read, served.url + "/version", {"Authorization": f"Bearer {served.token}"}, trusting
        )
        assert said["major"] == "1"


def test_a_watch_lasts_by_the_clients_clock() -> None:
    """Three seconds of the client's are most of an hour here, and the watch is still there to tell of a late change."""

    async def main() -> list[str]:
        server = SimulatedApiServer(loop_clock(), seed=1)
        async with serving(server) as served:
            seen: list[str] = []
            client = threading.Thread(target=watch, args=(served, seen))
            client.start()
            await asyncio.sleep(900.0)
            server.handle(Request("POST", MAPS, body=b'{"metadata":{"name":"late"}}'))
            while client.is_alive():  # noqa: ASYNC110 - it is in another thread, and time is cheap here
                await asyncio.sleep(10.0)
            return seen

    def watch(served: ServedCluster, seen: list[str]) -> None:
        with urllib.request.urlopen(f"{served.url}{MAPS}?watch=true&timeoutSeconds=3", timeout=20) as answer:
            seen.extend(json.loads(line)["object"]["metadata"]["name"] for line in answer)

    assert run_scaled(main(), speed=900.0) == ["late"]


def test_a_virtual_loop_attends_to_who_waits() -> None:
    async def main() -> tuple[Any, Any]:
        server = SimulatedApiServer(loop_clock(), seed=1)
        async with serving(server) as served:
            found: list[Any] = []

            def ask() -> None:
                made = urllib.request.Request(served.url + MAPS, b'{"metadata":{"name":"m"}}', JSON)
                urllib.request.urlopen(made, timeout=20).close()
                found.append(read(served.url + MAPS, {"Accept": TABLE}))

            client = threading.Thread(target=ask)
            client.start()
            while client.is_alive():  # noqa: ASYNC110 - virtual time waits for nobody
                await asyncio.sleep(60.0)
        return found[0]["rows"][0]["cells"][0], threads()

    assert run_virtual(main()) == ("m", [])


async def test_a_thousand_pods_are_shown_quickly(server: SimulatedApiServer, session: aiohttp.ClientSession) -> None:
    for number in range(1000):
        body = json.dumps(a_pod(f"p{number:04}", requests={"cpu": "1"})).encode()
        server.handle(Request("POST", "/api/v1/namespaces/default/pods", body=body))
    async with serving(server) as served:
        took = []
        for _ in range(3):
            begun = asyncio.get_running_loop().time()
            async with session.get(served.url + "/api/v1/pods", headers={"Accept": TABLE}) as answer:
                assert len((await answer.json())["rows"]) == 1000
            took.append(asyncio.get_running_loop().time() - begun)
    assert min(took) < 0.5


class BrokenServer(SimulatedApiServer):
    """As a mistake of ours would make it."""

    def handle(self, request: Request, user: str = "system:admin") -> Response:  # noqa: ARG002
        raise ZeroDivisionError("by zero")


async def test_mistakes_of_ours_are_told_as_such(session: aiohttp.ClientSession) -> None:
    async with serving(BrokenServer(WallClock())) as served, session.get(served.url + MAPS) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (500, "InternalError")
