"""What is said when there is no connection, or not to the right one: one sentence that names what to check."""

import asyncio
import socket
from dataclasses import replace
from datetime import timedelta

import pytest
from aiohttp import web

from tests.kube.tlsserver import ANONYMOUS, closing, serving
from ullage.errors import Unreachable
from ullage.kube.auth.tls import Pem, ServerTrust
from ullage.kube.client.transport import Request
from ullage.kube.http.http import Endpoint, HttpTransport
from ullage.testing.controlplane.certificates import EXPIRED, CertificateAuthority, Validity

GET = Request("GET", "/api/v1/pods", timeout=10)


async def hello(_: web.Request) -> web.Response:
    return web.json_response({"kind": "PodList"})


async def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        await expect(
            Endpoint(f"https://127.0.0.1:{taken.getsockname()[1]}"), r"refuses connections; check that it runs"
        )


async def test_a_name_that_does_not_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)  # tests ask no name server
    await expect(Endpoint("https://no-such-host.invalid:6443"), "has a name that does not resolve .*check the address")


async def test_a_server_whose_certificate_has_expired() -> None:
    async with serving(hello, validity=EXPIRED) as served:
        await expect(served.endpoint(), "shows a certificate that has expired; renew the server's certificate")


async def test_a_server_whose_certificate_is_for_the_future() -> None:
    tomorrow = Validity(start=timedelta(days=1), end=timedelta(days=2))
    async with serving(hello, validity=tomorrow) as served:
        await expect(served.endpoint(), "is not valid yet; check the clocks")


async def test_a_server_of_another_authority() -> None:
    async with serving(hello) as served:
        other = ServerTrust(Pem(CertificateAuthority("another").certificate, "certificate-authority of 'c'"))
        await expect(replace(served.endpoint(), trust=other), "issuer that is not in certificate-authority of 'c'")
        await expect(replace(served.endpoint(), trust=ServerTrust()), "not in this machine's trusted certificates")


async def test_a_server_of_another_name() -> None:
    async with serving(hello) as served:
        trust = replace(served.trust(), server_name="other.example")
        await expect(replace(served.endpoint(), trust=trust), "for another name .*set tls-server-name")


async def test_the_name_to_expect_may_be_given_and_checks_may_be_off() -> None:
    async with serving(hello) as served:
        for trust in (replace(served.trust(), server_name="kubernetes.default.svc"), ServerTrust(skip_verify=True)):
            async with closing(HttpTransport(replace(served.endpoint(), trust=trust), ANONYMOUS)) as transport:
                assert (await transport.send(GET)).status == 200


async def test_plain_http_where_tls_is_spoken_and_the_reverse() -> None:
    async with serving(hello) as served:
        plain = replace(served.endpoint(), server=served.server.replace("https", "http"))
        async with closing(HttpTransport(plain, ANONYMOUS)) as transport:
            with pytest.raises(Unreachable):
                await transport.send(GET)
    async with await asyncio.start_server(_says_http, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await expect(Endpoint(f"https://127.0.0.1:{port}"), "does not speak TLS|broke off the TLS handshake")


async def test_something_that_does_not_speak_http() -> None:
    async with await asyncio.start_server(_says_hello, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await expect(Endpoint(f"http://127.0.0.1:{port}"), "does not speak HTTP as it should")


async def test_a_proxy_that_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        proxy = f"http://127.0.0.1:{taken.getsockname()[1]}"
        await expect(Endpoint("https://127.0.0.1:1", proxy=proxy), "through the proxy .*check proxy-url")


async def expect(endpoint: Endpoint, text: str) -> None:
    """One call fails, in one sentence that names the server and says what to check."""
    async with closing(HttpTransport(endpoint, ANONYMOUS)) as transport:
        with pytest.raises(Unreachable, match=text) as caught:
            await transport.send(GET)
    assert endpoint.server in str(caught.value)
    assert "\n" not in str(caught.value)


async def _says_http(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    writer.close()


async def _says_hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example ESMTP\r\n")
    writer.close()
