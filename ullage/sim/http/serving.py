"""Putting it together: the port, the thread, the bridge and the kubeconfig, for the length of a block."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ullage.clock import WallClock
from ullage.decide.admit.rotation import Span
from ullage.observe.serve import Address
from ullage.sim.apiserver.server import SimulatedApiServer
from ullage.sim.http.bridge import Bridge
from ullage.sim.http.doorkeeper import Doorkeeper, is_loopback, new_token
from ullage.sim.http.facade import Facade
from ullage.sim.http.kubeconfig import config_text, written
from ullage.sim.http.listener import Listener, bound_socket
from ullage.webhook.authority import issue, new_authority
from ullage.webhook.tls import Served as ServedPair
from ullage.webhook.tls import ServedCertificate

LOOPBACK = Address("127.0.0.1", 0)
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_DAY = 86_400.0
_CERTIFICATE_DAYS = 30


@dataclass(frozen=True, slots=True)
class Serving:
    """Where and for whom."""

    address: Address = LOOPBACK
    kubeconfig: Path | None = None
    """Where to write it; otherwise in a folder of its own below the system's for temporary files."""
    user: str = "system:admin"
    """Who clients are, unless they impersonate somebody."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a client needs to know."""

    url: str
    address: Address
    kubeconfig: Path
    token: str = ""
    """To be shown as a bearer token; none is needed on loopback."""


@asynccontextmanager
async def serving(server: SimulatedApiServer, how: Serving = Serving()) -> AsyncIterator[Served]:  # noqa: B008 - frozen
    """Serve during the block, which is on the server's own loop. Raises UserError where address or file are not to be
    had."""
    with ExitStack() as opened:
        taken = bound_socket(how.address)
        opened.callback(taken.close)
        host, port, *_ = taken.getsockname()
        address = Address(host, port)
        token = "" if is_loopback(how.address.host) else new_token()
        tls, trusted = _secured(address) if token else (None, None)
        url = f"{'https' if token else 'http'}://{_reachable(address)}"
        path = opened.enter_context(written(config_text(url, token=token, trusted=trusted), how.kubeconfig))
        server.account_from_birth()
        bridge = Bridge(asyncio.get_running_loop())
        facade = Facade(server, bridge, Doorkeeper(token), how.user)
        listener = Listener(facade.handle, facade.close)
        opened.callback(listener.stop)
        opened.callback(bridge.close)
        listener.start(taken, tls)
        yield Served(url, address, path, token)


def _reachable(address: Address) -> Address:
    """Where to call a server that listens on all addresses of this machine."""
    return Address(_EVERYWHERE.get(address.host, address.host), address.port)


def _secured(address: Address) -> tuple[ssl.SSLContext, bytes]:
    """A certificate of our own making, and what to trust to believe it."""
    now = WallClock().now()
    span = Span(now - _DAY, now + _CERTIFICATE_DAYS * _DAY)
    authority = new_authority(span)
    names = sorted({"localhost", "127.0.0.1", _reachable(address).host})
    served = ServedCertificate()
    served.load(ServedPair(issue(authority, names, span), authority.certificate))
    return served.context, authority.certificate
