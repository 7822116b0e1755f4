"""Serve a cluster over HTTP for the length of a block: port, thread, bridge and kubeconfig put together."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ullage.certs.authority import issue, new_authority
from ullage.certs.serving import CertificateBundle as ServedPair
from ullage.certs.serving import ReloadingTlsContext
from ullage.clock import WallClock
from ullage.decide.certs.rotation import ValidityPeriod
from ullage.model.units import Instant
from ullage.observe.probes import ListenAddress
from ullage.sim.apiserver.server import SimulatedApiServer
from ullage.sim.http.access import HttpAccess, is_loopback, new_token
from ullage.sim.http.bridge import LoopBridge
from ullage.sim.http.http_api import HttpApi
from ullage.sim.http.kubeconfig import config_text, written
from ullage.sim.http.listener import HttpListener, bound_socket

LOOPBACK = ListenAddress("127.0.0.1", 0)
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_DAY = 86_400.0
_CERTIFICATE_DAYS = 30


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Address, kubeconfig path and user of the served cluster."""

    address: ListenAddress = LOOPBACK
    kubeconfig: Path | None = None
    """Path to write the kubeconfig to; by default a private folder below the system's folder for temporary files."""
    user: str = "system:admin"
    """User name of clients that do not impersonate another user."""


@dataclass(frozen=True, slots=True)
class ServedCluster:
    """Connection details for a client."""

    url: str
    address: ListenAddress
    kubeconfig: Path
    token: str = ""
    """Bearer token; empty on loopback, where none is needed."""


@asynccontextmanager
async def serving(server: SimulatedApiServer, how: ServeOptions = ServeOptions()) -> AsyncIterator[ServedCluster]:  # noqa: B008 - frozen
    """Serve during the block, which is on the server's own loop. Raises UserError where address or file are not to be
    had."""
    with ExitStack() as opened:
        taken = bound_socket(how.address)
        opened.callback(taken.close)
        host, port, *_ = taken.getsockname()
        address = ListenAddress(host, port)
        token = "" if is_loopback(how.address.host) else new_token()
        tls, trusted = _secured(address) if token else (None, None)
        url = f"{'https' if token else 'http'}://{_reachable(address)}"
        path = opened.enter_context(written(config_text(url, token=token, trusted=trusted), how.kubeconfig))
        server.account_from_birth()
        bridge = LoopBridge(asyncio.get_running_loop())
        facade = HttpApi(server, bridge, HttpAccess(token), how.user)
        listener = HttpListener(facade.handle, facade.close)
        opened.callback(listener.stop)
        opened.callback(bridge.close)
        listener.start(taken, tls)
        yield ServedCluster(url, address, path, token)


def _reachable(address: ListenAddress) -> ListenAddress:
    """Address to call for a server that listens on all addresses of this machine."""
    return ListenAddress(_EVERYWHERE.get(address.host, address.host), address.port)


def _secured(address: ListenAddress) -> tuple[ssl.SSLContext, bytes]:
    """TLS context with a certificate of our own making, and the authority to trust."""
    now = WallClock().now()
    span = ValidityPeriod(Instant(now - _DAY), Instant(now + _CERTIFICATE_DAYS * _DAY))
    authority = new_authority(span)
    names = sorted({"localhost", "127.0.0.1", _reachable(address).host})
    served = ReloadingTlsContext()
    served.load(ServedPair(issue(authority, names, span), authority.certificate))
    return served.context, authority.certificate
