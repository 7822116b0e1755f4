"""A real HTTPS server on loopback that plays an API server as well or as badly as a test wants."""

import ssl
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from ullage.kube.auth.credentials import Credential, Credentials, FixedCredentials
from ullage.kube.auth.tls import Pem, ServerTrust
from ullage.kube.http.http import Endpoint, HttpTransport
from ullage.testing.controlplane.certificates import CertificateAuthority, Validity

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

ANONYMOUS = FixedCredentials(Credential(), "nobody's credentials")


@dataclass
class Served:
    """What runs, and what it saw."""

    server: str
    authority: CertificateAuthority
    requests: list[web.Request] = field(default_factory=list)
    connections: set[object] = field(default_factory=set)

    def trust(self) -> ServerTrust:
        return ServerTrust(Pem(self.authority.certificate, "the test's CA"))

    def endpoint(self) -> Endpoint:
        return Endpoint(self.server, self.trust())

    def transport(self, credentials: Credentials = ANONYMOUS) -> HttpTransport:
        return HttpTransport(self.endpoint(), credentials)


@asynccontextmanager
async def closing(transport: HttpTransport) -> AsyncGenerator[HttpTransport, None]:
    """A transport that is closed whatever happens."""
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def serving(
    handler: Handler, *, validity: Validity | None = None, client_certificates: bool = False
) -> AsyncGenerator[Served, None]:
    """Run a handler behind TLS. With `client_certificates`, show it those that our CA signed."""
    authority = CertificateAuthority()
    served = Served("", authority)

    async def noted(request: web.BaseRequest) -> web.StreamResponse:
        # aiohttp hands a low-level server's handler what it calls a base request; the parts we use are the same.
        served.requests.append(request)  # type: ignore[arg-type]
        served.connections.add(request.transport)
        return await handler(request)  # type: ignore[arg-type]

    runner = web.ServerRunner(web.Server(noted, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=_context(authority, validity, client_certificates))
    try:
        await site.start()
        host, port = runner.addresses[0][:2]
        served.server = f"https://{host}:{port}"
        yield served
    finally:
        await runner.cleanup()


def _context(authority: CertificateAuthority, validity: Validity | None, client_certificates: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = authority.server(validity)
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "crt"), Path(folder, "key")
        pair.write(certificate, key)
        context.load_cert_chain(certificate, key)
    if client_certificates:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=authority.certificate.decode())
    return context
