"""HTTP/1.1 connections that carry one call after another: a request's bytes out, its whole response in.

Less than an HTTP library does, and so at a fraction of its cost: no redirects, cookies, proxies, compression or
streams, and nothing is ever sent twice. The transport assigns calls to connections.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast
from urllib.parse import quote, urlencode

from yarl import URL

from ullage.errors import UserError
from ullage.kube.client.protobuf_writer import PROTOBUF
from ullage.kube.client.transport import Request
from ullage.kube.http.answer import HttpResponse, HttpResponseReader, NotHttp

_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._:-]*").fullmatch
_FORBIDDEN_IN_HEADERS = re.compile(r"[\r\n\0]").search


class ConnectionBroken(ConnectionError):
    """The peer closed the connection before the response was complete."""


class Connection(asyncio.Protocol):
    """One connection. It carries one call at a time; after a call that failed it is closed."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reader = HttpResponseReader()
        self._waiting: asyncio.Future[HttpResponse] | None = None
        self._reusable = True
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """True if another call may be made on the connection."""
        return self._reusable and self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> HttpResponse:
        """Send a request and wait for the response. A cancelled wait closes the connection."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionBroken("it was closed before the call")
        self._reader = HttpResponseReader()
        waiting: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
        self._waiting = waiting
        self._reusable = False
        self._transport.write(request)
        try:
            answer = await waiting
        except BaseException:
            self.abort()
            raise
        finally:
            self._waiting = None
        self._reusable = answer.reusable
        return answer

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close the connection in order: with TLS, after its shutdown."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # what a stream socket has

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            self._reusable = False  # unrequested bytes: they would be taken for the next response
            return
        try:
            answer = self._reader.feed(data)
        except NotHttp as error:
            self._waiting.set_exception(error)
        else:
            if answer is not None:
                self._waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._reusable = False
        if self._waiting is None or self._waiting.done():
            return
        answer = self._reader.end() if exc is None else None
        if answer is not None:
            self._waiting.set_result(answer)
        else:
            self._waiting.set_exception(exc or ConnectionBroken("the connection was closed"))


async def reach(url: URL, *, security: ssl.SSLContext | None, name: str) -> tuple[Connection, socket.socket]:
    """A new connection, and its socket. `name` is the one the server's certificate must be for."""
    loop = asyncio.get_running_loop()
    made = await _connected(await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM))
    expected = name if security is not None else None
    try:
        _, connection = await loop.create_connection(Connection, sock=made, ssl=security, server_hostname=expected)
    except BaseException:
        made.close()
        raise
    return connection, made


async def _connected(found: Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]]) -> socket.socket:
    """A socket to the first of these addresses that answers. Raises OSError of the last one that does not."""
    refusal: OSError = OSError("no address")
    loop = asyncio.get_running_loop()
    for family, kind, protocol, _, address in found:
        made = watchful_socket(family, kind, protocol)
        try:
            await loop.sock_connect(made, address)
        except OSError as error:
            made.close()
            refusal = error
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise refusal


def watchful_socket(family: int, kind: int, protocol: int) -> socket.socket:
    """Make a socket that detects within a minute that the peer is gone, even if idle."""
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 20),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 50_000),
    ):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


class RequestEncoder:
    """Encoder of requests to one server. Everything that is the same for each request is prepared once."""

    def __init__(self, base: URL, headers: Sequence[tuple[str, str]]) -> None:
        self._prefix = base.raw_path.rstrip("/")
        host = f"[{base.host}]" if ":" in (base.host or "") else base.host
        lines = [("Host", f"{host}:{base.port}"), *headers]
        self._headers = b"".join(_header(name, value) for name, value in lines)

    def bytes_of(self, request: Request, authorization: str) -> bytes:
        """Head and body, ready to be sent."""
        query = f"?{_encoded(tuple(request.query.items()))}" if request.query else ""
        head = f"{request.method} {self._prefix}{_quoted(request.path)}{query} HTTP/1.1\r\n".encode("ascii")
        credential = _header("Authorization", authorization) if authorization else b""
        if request.body is None:
            return b"".join((head, self._headers, credential, b"\r\n"))
        binary = None if request.compact is None else request.compact()
        body, kind = (request.body, request.content_type) if binary is None else (binary, PROTOBUF)
        about = b"Content-Type: %b\r\nContent-Length: %d\r\n\r\n" % (kind.encode(), len(body))
        return b"".join((head, self._headers, credential, about, body))


def _quoted(path: str) -> str:
    return path if _PLAIN_PATH(path) else quote(path, safe="/:@!$&'()*+,;=~")


@lru_cache(maxsize=256)
def _encoded(query: tuple[tuple[str, str], ...]) -> str:
    return urlencode(query)


@lru_cache(maxsize=16)
def _header(name: str, value: str) -> bytes:
    if _FORBIDDEN_IN_HEADERS(name + value):
        raise UserError(f"the value for the header {name} has a line break in it")
    return f"{name}: {value}\r\n".encode()
