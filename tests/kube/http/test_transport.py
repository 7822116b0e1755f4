"""HttpTransport over a real TLS socket: requests, streams, credentials, and connections that break off."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

import pytest
from aiohttp import web

from tests.kube.tlsserver import ANONYMOUS, closing, serving
from ullage.errors import Unreachable
from ullage.kube.auth.credentials import Credential, NoCredential
from ullage.kube.auth.tls import ClientCertificate, Pem
from ullage.kube.client.transport import Request, StreamRejected
from ullage.kube.http.http import HttpTransport, TransportOptions
from ullage.testing.controlplane.certificates import EXPIRED

GET = Request("GET", "/api/v1/pods", {"limit": "5", "labelSelector": "a in (b, c),d!=e+f"}, timeout=10)


async def hello(_: web.Request) -> web.Response:
    return web.json_response({"kind": "PodList"})


class Turnstile:
    """Credentials that are renewed as often as they have successors."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)

    async def current(self) -> Credential:
        return Credential(f"Bearer {self._tokens[0]}")

    async def renewed(self, refused: Credential) -> Credential | None:
        if refused == await self.current() and len(self._tokens) > 1:
            self._tokens.pop(0)
        latest = await self.current()
        return latest if latest != refused else None

    def describe(self) -> str:
        return "the credentials of user 'jane'"


async def test_what_a_request_looks_like_on_the_wire() -> None:
    async with serving(hello) as served:
        endpoint = replace(
            served.endpoint(),
            headers=(("Impersonate-Group", "a"), ("Impersonate-Group", "b")),
            server=served.server + "/prefix",
        )
        async with closing(HttpTransport(endpoint, Turnstile("t"))) as transport:
            response = await transport.send(replace(GET, method="PUT", body=b"{}", content_type="application/x"))
    assert (response.status, response.body, response.retry_after) == (200, b'{"kind": "PodList"}', None)
    (seen,) = served.requests
    assert (seen.method, seen.path) == ("PUT", "/prefix/api/v1/pods")
    assert dict(seen.query) == dict(GET.query)
    assert seen.headers["Authorization"] == "Bearer t"
    assert seen.headers["Content-Type"] == "application/x"
    assert seen.headers["Accept"] == "application/json"
    assert seen.headers["Accept-Encoding"] == "identity"
    assert seen.headers["User-Agent"].startswith("ullage/")
    assert seen.headers.getall("Impersonate-Group") == ["a", "b"]


async def test_connections_are_reused_and_limited() -> None:
    most = now = 0

    async def slow(_: web.Request) -> web.Response:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        return web.json_response({})

    async with serving(slow) as served:
        transport = HttpTransport(served.endpoint(), ANONYMOUS, TransportOptions(concurrency=3))
        async with closing(transport):
            await asyncio.gather(*(transport.send(GET) for _ in range(12)))
            await transport.send(GET)
        assert most == 3
        assert len(served.connections) == 3


async def test_many_watches_do_not_stand_in_each_others_way() -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"{}\n")
        await asyncio.sleep(30)
        return answer

    async with serving(watch) as served:
        transport = HttpTransport(served.endpoint(), ANONYMOUS, TransportOptions(concurrency=1))
        async with closing(transport):
            streams = [transport.stream(GET) for _ in range(5)]
            assert [await anext(stream) for stream in streams] == [[b"{}"]] * 5
            for stream in streams:
                await stream.aclose()


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        pytest.param([b"one\ntwo\n"], [b"one", b"two"], id="two-in-one"),
        pytest.param([b"o", b"ne\nt", b"wo", b"\n"], [b"one", b"two"], id="torn"),
        pytest.param([b"\n\none\n\n"], [b"one"], id="empty-lines"),
        pytest.param([b"x" * 1_500_000 + b"\n", b"y\n"], [b"x" * 1_500_000, b"y"], id="a-very-long-line"),
        pytest.param([], [], id="nothing"),
    ],
)
async def test_lines_come_whole_however_they_are_torn(chunks: list[bytes], lines: list[bytes]) -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for chunk in chunks:
            await answer.write(chunk)
            await asyncio.sleep(0.01)
        return answer

    async with serving(watch) as served, closing(served.transport()) as transport:
        assert [line for batch in await collect(transport) for line in batch] == lines


async def test_lines_that_come_together_are_handed_on_together() -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"{}\n" * 1000)
        return answer

    async with serving(watch) as served, closing(served.transport()) as transport:
        batches = await collect(transport)
    assert sum(len(batch) for batch in batches) == 1000
    assert len(batches) < 20


async def test_a_watch_cut_by_the_network_is_unreachable_after_what_came() -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"one\ntw")
        await asyncio.sleep(0.05)
        assert request.transport is not None
        request.transport.abort()
        return answer

    async with serving(watch) as served, closing(served.transport()) as transport:
        seen: list[Sequence[bytes]] = []
        with pytest.raises(Unreachable, match=r"closed the connection|cannot be talked to"):
            await collect(transport, seen)
        assert seen == [[b"one"]]


async def test_a_watch_closed_in_the_middle_of_a_line_is_unreachable() -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"one\ntw")
        return answer

    async with serving(watch) as served, closing(served.transport()) as transport:
        with pytest.raises(Unreachable, match="in the middle of a line"):
            await collect(transport)


async def test_a_silent_watch_counts_as_dead_after_its_time() -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"one\n")
        await asyncio.sleep(30)
        return answer

    async with serving(watch) as served, closing(served.transport()) as transport:
        seen: list[Sequence[bytes]] = []
        with pytest.raises(Unreachable, match="did not answer in time"):
            await collect(transport, seen, replace(GET, timeout=0.3))
        assert seen == [[b"one"]]


async def test_a_refused_watch_gives_the_whole_refusal() -> None:
    async def watch(_: web.Request) -> web.Response:
        return web.json_response({"code": 429}, status=429, headers={"Retry-After": "7"})

    async with serving(watch) as served, closing(served.transport()) as transport:
        with pytest.raises(StreamRejected) as caught:
            await collect(transport)
    assert caught.value.response.status == 429
    assert caught.value.response.retry_after == 7.0
    assert caught.value.response.body == b'{"code": 429}'


async def test_a_date_in_retry_after_is_nothing_we_count_by() -> None:
    async def busy(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})

    async with serving(busy) as served, closing(served.transport()) as transport:
        assert (await transport.send(GET)).retry_after is None


async def test_a_slow_answer_is_unreachable_after_its_time() -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with serving(slow) as served, closing(served.transport()) as transport:
        with pytest.raises(Unreachable, match="did not answer in time; check the network"):
            await transport.send(replace(GET, timeout=0.2))


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST", "PATCH"])
async def test_a_write_whose_connection_breaks_is_sent_once(method: str) -> None:
    """Also on a connection that was reused, where the HTTP library would send PUT and DELETE again by itself."""

    async def breaks(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({})
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serving(breaks) as served, closing(served.transport()) as transport:
        await transport.send(GET)
        with pytest.raises(Unreachable):
            await transport.send(replace(GET, method=method, body=b"{}"))
        assert [request.method for request in served.requests] == ["GET", method]
        assert len(served.connections) == 1


async def only_new(request: web.Request) -> web.Response:
    good = request.headers.get("Authorization") == "Bearer new"
    return web.Response(text='{"message": "Unauthorized"}\n', status=200 if good else 401)


async def test_a_refused_token_is_renewed_and_the_call_repeated_once() -> None:
    async with serving(only_new) as served, closing(served.transport(Turnstile("old", "new"))) as transport:
        response = await transport.send(replace(GET, method="POST", body=b"{}"))
        assert response.status == 200
        assert await collect(transport) == [[b'{"message": "Unauthorized"}']]
    assert [request.headers["Authorization"] for request in served.requests] == ["Bearer old", *["Bearer new"] * 2]


async def test_credentials_that_stay_refused_are_named() -> None:
    async with serving(only_new) as served, closing(served.transport(Turnstile("a", "b", "new"))) as transport:
        response = await transport.send(GET)
    assert response.status == 401
    assert b"does not accept the credentials of user 'jane'" in response.body
    assert len(served.requests) == 2


async def test_an_expired_client_certificate_is_named_with_its_date() -> None:
    async with serving(only_new, client_certificates=False) as served:
        pair = served.authority.client("jane", validity=EXPIRED)
        shown = ClientCertificate(Pem(pair.certificate, "c"), Pem(pair.key, "k"))
        fixed = type(ANONYMOUS)(Credential(certificate=shown), "the credentials of user 'jane'")
        async with closing(served.transport(fixed)) as transport:
            response = await transport.send(GET)
    assert response.status == 401
    assert b"the client certificate expired on 20" in response.body


async def test_without_credentials_nothing_is_sent() -> None:
    class Broken(Turnstile):
        async def current(self) -> Credential:
            raise NoCredential("the plugin failed: log in first")

    async with serving(hello) as served, closing(served.transport(Broken())) as transport:
        response = await transport.send(GET)
        with pytest.raises(StreamRejected):
            await collect(transport)
    assert response.status == 401
    assert b"the plugin failed: log in first" in response.body
    assert served.requests == []


async def test_a_client_certificate_that_is_none_is_named() -> None:
    nonsense = ClientCertificate(Pem(b"c", "what the plugin gives"), Pem(b"k", "what the plugin gives"))
    fixed = type(ANONYMOUS)(Credential(certificate=nonsense), "test")
    async with serving(hello) as served, closing(served.transport(fixed)) as transport:
        response = await transport.send(GET)
    assert response.status == 401
    assert b"what the plugin gives: not a certificate and its key in PEM" in response.body
    assert served.requests == []


async def test_a_new_client_certificate_is_shown_on_new_connections_while_old_calls_end_in_peace() -> None:
    async def who(request: web.Request) -> web.Response:
        if "slow" in request.path:
            await asyncio.sleep(0.2)
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert")
        return web.Response(text=dict(pair[0] for pair in shown["subject"])["commonName"])

    class Rotating(Turnstile):
        shown: ClientCertificate

        async def current(self) -> Credential:
            return Credential(certificate=self.shown)

    async with serving(who, client_certificates=True) as served:
        credentials = Rotating("x")

        def rotate(name: str) -> None:
            pair = served.authority.client(name)
            credentials.shown = ClientCertificate(Pem(pair.certificate, "c"), Pem(pair.key, "k"))

        rotate("first")
        async with closing(served.transport(credentials)) as transport:
            slow = asyncio.create_task(transport.send(replace(GET, path="/slow")))
            assert (await transport.send(GET)).body == b"first"
            rotate("second")
            assert (await transport.send(GET)).body == b"second"
            assert not slow.done()
            assert (await slow).body == b"first"
            assert (await transport.send(GET)).body == b"second"
            assert len(transport._pools) == 1


async def test_a_closed_client_says_so_and_may_be_closed_again() -> None:
    async with serving(hello) as served:
        transport = served.transport()
        await transport.send(GET)
        await transport.close()
        await transport.close()
        with pytest.raises(Unreachable, match="this client is closed"):
            await transport.send(GET)


async def test_closing_leaves_no_socket_behind_whatever_was_under_way() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x\n" * 1000)
            await asyncio.sleep(0.001)

    async with serving(endless) as served:
        transport = served.transport()
        left_early = transport.stream(GET)
        await anext(left_early)
        await left_early.aclose()
        still_open = transport.stream(GET)
        await anext(still_open)
        cancelled = asyncio.create_task(transport.send(GET))
        await asyncio.sleep(0.1)
        cancelled.cancel()
        await transport.close()
        assert all(one.fileno() < 0 for one in transport._sockets)
        with pytest.raises(Unreachable):
            await collect_rest(still_open)


async def test_closing_does_not_wait_for_a_server_that_is_stopped() -> None:
    async with serving(hello) as served:
        transport = served.transport()
        await transport.send(GET)
        (stopped,) = served.connections
        assert isinstance(stopped, asyncio.Transport)
        stopped.pause_reading()  # the shutdown of TLS is never answered
        async with asyncio.timeout(5):
            await transport.close()
        assert all(one.fileno() < 0 for one in transport._sockets)
        stopped.abort()


async def collect(
    transport: HttpTransport, seen: list[Sequence[bytes]] | None = None, request: Request = GET
) -> list[Sequence[bytes]]:
    seen = [] if seen is None else seen
    async with aclosing(transport.stream(request)) as stream:
        async for batch in stream:
            seen.append(batch)
    return seen


async def collect_rest(stream: AsyncGenerator[Sequence[bytes], None]) -> None:
    async for _ in stream:
        pass
