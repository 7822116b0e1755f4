"""From a kubeconfig to a call, over TLS, when something is wrong: a clear message or a retried call, never a crash."""

import asyncio
import base64
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.kube.scripted import a_pod, an_event
from tests.kube.tlsserver import Handler, Served, serving
from ullage import errors
from ullage.kube.auth.connect import connect, find_access, open_api
from ullage.kube.client.api import Binding, KubeApi
from ullage.kube.client.calling import RetryPolicy
from ullage.kube.client.resources import PODS
from ullage.testing.controlplane.certificates import EXPIRED, Validity

pytestmark = pytest.mark.fault


def a_kubeconfig(folder: Path, server: str, authority: bytes = b"", **user: Any) -> Path:
    cluster = {"server": server}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    content = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(content))
    return path


@asynccontextmanager
async def talking_to(
    handler: Handler, folder: Path, *, validity: Validity | None = None
) -> AsyncGenerator[tuple[KubeApi, Served], None]:
    """An API to a server of ours, found by a kubeconfig, that waits only a little before it asks again."""
    async with serving(handler, validity=validity) as served:
        path = a_kubeconfig(folder, served.server, served.authority.certificate, token="t")
        api = open_api(find_access(path), seed=1, patience=RetryPolicy(attempts=3, first_wait=0.01))
        try:
            yield api, served
        finally:
            await api.close()


def test_a_missing_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(errors.UserError, match=r"kubeconfig .*/nowhere does not exist; give another with --kubeconfig"):
        connect(tmp_path / "nowhere")


async def test_an_unreachable_server_is_tried_again_and_then_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = f"https://127.0.0.1:{taken.getsockname()[1]}"
        api = open_api(find_access(a_kubeconfig(tmp_path, server)), patience=RetryPolicy(attempts=3, first_wait=0.01))
        with pytest.raises(errors.Unreachable, match=f"the API server at {server} refuses connections; check that"):
            await api.list(PODS)
        await api.close()


async def test_a_server_that_comes_up_while_we_try_is_reached(tmp_path: Path) -> None:
    async def starting(_: web.Request) -> web.Response:
        if len(served.requests) < 3:
            return web.Response(status=503, text="not ready")
        return web.json_response(a_pod("p"))

    async with talking_to(starting, tmp_path) as (api, served):
        assert (await api.get(PODS, "p", "n")).metadata.name == "p"


async def test_an_expired_server_certificate(tmp_path: Path) -> None:
    async def hello(_: web.Request) -> web.Response:
        return web.json_response(a_pod("p"))

    async with talking_to(hello, tmp_path, validity=EXPIRED) as (api, served):
        with pytest.raises(errors.Unreachable, match=r"certificate that has expired; renew the server's certificate"):
            await api.get(PODS, "p", "n")
        assert served.requests == []


async def test_a_forbidden_resource(tmp_path: Path) -> None:
    message = 'pods is forbidden: User "jane" cannot list resource "pods" in API group "" at the cluster scope'

    async def forbids(_: web.Request) -> web.Response:
        return web.json_response({"code": 403, "reason": "Forbidden", "message": message}, status=403)

    async with talking_to(forbids, tmp_path) as (api, served):
        with pytest.raises(errors.Forbidden) as caught:
            await api.list(PODS)
        assert str(caught.value) == message
        assert len(served.requests) == 1


@pytest.mark.parametrize(
    "garbage",
    [b"\x00\xff\xfe\n", b"<html>502</html>\n", b'{"type":"ADDED","object":{"metadata":\n', b"[1, 2\n"],
    ids=["binary", "html", "cut", "no-event"],
)
async def test_garbage_in_a_watch(tmp_path: Path, garbage: bytes) -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(an_event("ADDED", a_pod("a", "5")) + b"\n" + garbage)
        await asyncio.sleep(30)
        return answer

    async with talking_to(watch, tmp_path) as (api, _):
        seen: list[str] = []
        with pytest.raises(errors.Unreadable, match="watch pods in n: a line of the watch is not an event"):
            await _collect(api, seen)
        assert seen == ["5"]


async def test_a_busy_server_is_left_alone_and_then_asked_again_also_for_a_write(tmp_path: Path) -> None:
    moments = []

    async def busy(_: web.Request) -> web.Response:
        moments.append(asyncio.get_running_loop().time())
        if len(moments) == 1:
            return web.json_response({"code": 429}, status=429, headers={"Retry-After": "1"})
        return web.json_response({"kind": "Status"}, status=201)

    async with talking_to(busy, tmp_path) as (api, _):
        await api.bind("p", "n", Binding("node"))
    first, second = moments
    assert 1 <= second - first < 3


async def test_a_write_that_is_cut_off_is_sent_once(tmp_path: Path) -> None:
    async def cuts(request: web.Request) -> web.Response:
        await request.read()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with talking_to(cuts, tmp_path) as (api, served):
        with pytest.raises(errors.Unreachable):
            await api.bind("p", "n", Binding("node"))
        assert len(served.requests) == 1


async def test_a_portal_that_answers_everything_with_a_page(tmp_path: Path) -> None:
    async def portal(_: web.Request) -> web.Response:
        return web.Response(text="<html><body>Please log in</body></html>", content_type="text/html")

    async with talking_to(portal, tmp_path) as (api, _):
        with pytest.raises(errors.Unreadable, match="list pods: the answer is not a readable list of Pod"):
            await api.list(PODS)


async def _collect(api: KubeApi, seen: list[str]) -> None:
    async for batch in api.watch(PODS, "n", since="1"):
        seen += [event.resource_version for event in batch]
