"""Requests over HTTP and TLS: the transport to a real API server.

Calls go over connections of our own (`kube.http.wire`); streams, proxies, compression and very large bodies are left
to aiohttp. Connections are reused, credentials are current for each request, and errors below are raised as
Unreachable. Nothing is sent twice from here except after a 401, which means that nothing was done.
"""

import asyncio
import io
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar
from weakref import WeakSet

import aiohttp
from yarl import URL

import ullage
from ullage.clock import Clock, WallClock
from ullage.errors import Unreachable, UserError
from ullage.kube.auth import tls
from ullage.kube.auth.credentials import Credential, Credentials, NoCredential
from ullage.kube.client.json_codec import encode
from ullage.kube.client.transport import JSON, Request, Response, StreamRejected
from ullage.kube.http import wire
from ullage.kube.http.answer import NotHttp
from ullage.kube.http.calls import AnsweredCall, CompletedCall, OpenCall, seconds_of
from ullage.kube.http.connections import CONNECT_SECONDS, KEEP_IDLE_SECONDS, ConnectionPool
from ullage.kube.http.diagnosis import unreachable
from ullage.kube.http.lines import LineSplitter

_READ_BUFFER = 2**20
_LARGE_BODY = 2**20
_PARTING_SECONDS, _PARTING_YIELDS = 0.5, 50  # a connection closed just now still waits for the server's shutdown of TLS
_BROKEN = (aiohttp.ClientError, OSError, asyncio.TimeoutError, NotHttp)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of an API server, with the trust, proxy and headers to reach it by."""

    server: str
    trust: tls.ServerTrust = field(default_factory=tls.ServerTrust)
    proxy: str = ""
    headers: Sequence[tuple[str, str]] = ()
    """Headers of every request, for impersonation."""


@dataclass
class _Pool:
    """The connections that show one client certificate. Once retired, it is closed when its last call ends."""

    certificate: tls.ClientCertificate | None
    session: aiohttp.ClientSession
    own: ConnectionPool
    calls: int = 0
    retired: bool = False

    async def close(self) -> None:
        self.own.close()
        await self.session.close()


A = TypeVar("A", bound=AnsweredCall)


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """Settings of the transport that the client chooses."""

    concurrency: int = 100
    """Calls under way at once; watches do not count."""
    compress: bool = False
    """Ask for gzip. It costs both sides more time than it saves on a network as fast as a cluster's own."""
    clock: Clock = field(default_factory=WallClock)


class HttpTransport:
    """`Transport` to an API server. Sockets are opened by the first request, in the loop that makes it."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Credentials,
        options: TransportOptions = TransportOptions(),  # noqa: B008 - frozen
    ) -> None:
        self._endpoint = endpoint
        self._base = URL(endpoint.server)
        self._credentials = credentials
        self._options = options
        self._encoder = wire.RequestEncoder(self._base, self._common_headers())
        self._slots = asyncio.Semaphore(options.concurrency)
        self._pools: list[_Pool] = []
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._closed = False

    async def send(self, request: Request) -> Response:
        async with self._slots:
            if not self._is_plain(request):
                return await self._send_by_session(request)
            done = await self._ask(request, self._exchange)
            return done if isinstance(done, Response) else done.response

    async def _send_by_session(self, request: Request) -> Response:
        call = await self._ask(request, self._open)
        if isinstance(call, Response):
            return call
        try:
            return await call.whole()
        except _BROKEN as error:
            raise self._unreachable(error) from error
        finally:
            await call.end()

    async def stream(self, request: Request) -> AsyncGenerator[Sequence[bytes], None]:
        call = await self._ask(request, self._open)
        if isinstance(call, Response):
            raise StreamRejected(call)
        splitter = LineSplitter()
        try:
            if call.status != 200:
                raise StreamRejected(await call.whole())
            while chunk := await call.next_chunk():
                if lines := splitter.feed(chunk):
                    yield lines
        except _BROKEN as error:
            raise self._unreachable(error) from error
        finally:
            await call.hang_up()
        if splitter.has_torn_line:
            raise Unreachable(f"the API server at {self._endpoint.server} closed a watch in the middle of a line")

    async def close(self) -> None:
        self._closed = True
        pools, self._pools = self._pools, []
        for pool in pools:
            await pool.close()
        if not await self._all_closed():
            for pool in pools:
                pool.own.abort()
            await self._all_closed()

    async def _all_closed(self) -> bool:
        """Wait for the sockets to close, but not for long: the server may be stopped."""
        for _ in range(_PARTING_YIELDS):
            if all(one.fileno() < 0 for one in self._sockets):
                return True
            await asyncio.sleep(_PARTING_SECONDS / _PARTING_YIELDS)
        return False

    async def _ask(self, request: Request, attempt: Callable[[Request, Credential], Awaitable[A]]) -> A | Response:
        """Return the attempt's response; or, where no usable credential is left, a response made here that says why."""
        try:
            credential = await self._credentials.current()
            answered = await attempt(request, credential)
            if answered.status != 401:
                return answered
            await answered.end()
            another = await self._credentials.renewed(credential)
            if another is None:
                return _unauthorized(self._refusal(credential))
            answered = await attempt(request, another)
            if answered.status != 401:
                return answered
            await answered.end()
            return _unauthorized(self._refusal(another))
        except (NoCredential, UserError) as error:  # UserError: a certificate that came later and is not one
            return _unauthorized(str(error))
        except _BROKEN as error:
            raise self._unreachable(error) from error

    def _is_plain(self, request: Request) -> bool:
        """True if the connections of `ConnectionPool` can carry the request: small body, no proxy, no compression."""
        large = request.body is not None and len(request.body) > _LARGE_BODY
        return not (large or self._endpoint.proxy or self._options.compress)

    async def _exchange(self, request: Request, credential: Credential) -> CompletedCall:
        pool = self._pool_for(credential.certificate)
        pool.calls += 1
        try:
            written = self._encoder.bytes_of(request, credential.authorization)
            async with asyncio.timeout(request.timeout):
                answer = await pool.own.ask(written)
        finally:
            await self._leave(pool)
        return CompletedCall(Response(answer.status, answer.body, seconds_of(answer.retry_after)))

    async def _open(self, request: Request, credential: Credential) -> OpenCall:
        pool = self._pool_for(credential.certificate)
        pool.calls += 1
        try:
            answer = await pool.session.request(
                request.method,
                self._base.with_path(self._base.path.rstrip("/") + request.path).with_query(request.query),
                data=_payload(request.body),
                headers=_headers(request, credential),
                timeout=aiohttp.ClientTimeout(total=request.timeout, sock_connect=CONNECT_SECONDS),
                server_hostname=self._endpoint.trust.server_name or None,
                proxy=self._endpoint.proxy or None,
                allow_redirects=False,
            )
        except BaseException:
            await self._leave(pool)
            raise
        return OpenCall(answer, lambda: self._leave(pool))

    async def _leave(self, pool: _Pool) -> None:
        pool.calls -= 1
        if pool.retired and not pool.calls and pool in self._pools:
            self._pools.remove(pool)
            await pool.close()

    def _pool_for(self, certificate: tls.ClientCertificate | None) -> _Pool:
        """The connections for this certificate; a new one retires those that show the old one."""
        if self._closed:
            raise Unreachable("this client is closed")
        if self._pools and self._pools[-1].certificate == certificate:
            return self._pools[-1]
        for pool in self._pools:
            pool.retired = True
        secure = self._base.scheme == "https"
        context = tls.make_context(self._endpoint.trust, certificate) if secure else None
        own = ConnectionPool(lambda: self._connect(context))
        self._pools.append(_Pool(certificate, self._new_session(context), own))
        return self._pools[-1]

    async def _connect(self, context: ssl.SSLContext | None) -> wire.Connection:
        name = self._endpoint.trust.server_name or self._base.host or ""
        async with asyncio.timeout(CONNECT_SECONDS):
            connection, made = await wire.reach(self._base, security=context, name=name)
        self._sockets.add(made)
        return connection

    def _new_session(self, context: ssl.SSLContext | None) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # calls are limited by `_slots`; watches must never wait for one another
                ssl=context or False,
                keepalive_timeout=KEEP_IDLE_SECONDS,
                socket_factory=self._new_socket,
            ),
            headers=self._common_headers(),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_BUFFER,
            middlewares=(self._never_twice,),
        )

    def _common_headers(self) -> list[tuple[str, str]]:
        plain = [] if self._options.compress else [("Accept-Encoding", "identity")]
        agent = f"ullage/{ullage.__version__}"
        return [("Accept", JSON), ("User-Agent", agent), *plain, *self._endpoint.headers]

    def _new_socket(self, address: aiohttp.connector.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = wire.watchful_socket(family, kind, protocol)
        self._sockets.add(made)
        return made

    async def _never_twice(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """aiohttp sends a PUT or DELETE again when a reused connection breaks. It may have been done: we do not."""
        try:
            return await handler(request)
        except _BROKEN as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: BaseException) -> Unreachable:
        return unreachable(error, self._endpoint.server, self._endpoint.trust, self._now())

    def _refusal(self, credential: Credential) -> str:
        """Explain a 401, which comes from the server without a cause."""
        ended = tls.expires(credential.certificate.certificate) if credential.certificate else None
        because = f": the client certificate expired on {ended:%Y-%m-%d}" if ended and ended < self._now() else ""
        who = self._credentials.describe()
        return f"the API server at {self._endpoint.server} does not accept {who}{because}; renew or replace them"

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._options.clock.now(), UTC)


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    """Large bodies go as files, which aiohttp sends in pieces: at once they would hold up the loop."""
    return io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY else body


def _headers(request: Request, credential: Credential) -> dict[str, str]:
    headers = {"Content-Type": request.content_type} if request.body is not None else {}
    if credential.authorization:
        headers["Authorization"] = credential.authorization
    return headers


def _unauthorized(message: str) -> Response:
    """A 401 in our own words, in the shape in which an API server gives its own."""
    return Response(401, encode({"kind": "Status", "code": 401, "reason": "Unauthorized", "message": message}))
