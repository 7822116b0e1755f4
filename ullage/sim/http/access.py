"""Access to the HTTP server: loopback host name and origin on loopback, a bearer token elsewhere."""

import hmac
import ipaddress
import secrets
from dataclasses import dataclass

from aiohttp import web

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.request.status_errors import StatusError

_TOKEN_BYTES = 32


def is_loopback(host: str) -> bool:
    """True for addresses that cannot be reached from outside, and for `localhost`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """Access check. Without a token, browsers sent here by a foreign host name or a foreign page are refused."""

    token: str = ""

    def refusal(self, asked: web.Request) -> Response | None:
        if self.token:
            kind, _, said = asked.headers.get("Authorization", "").partition(" ")
            if kind.lower() == "bearer" and hmac.compare_digest(said.strip().encode(), self.token.encode()):
                return None
            return StatusError(401, "Unauthorized", "Unauthorized").response()
        if not is_loopback(_hostname(asked.host)):
            message = f"this server answers to loopback names only, and was called {asked.host}"
            return StatusError(403, "Forbidden", message).response()
        origin = asked.headers.get("Origin")
        # Browsers say whose page a write comes from; no page is served here, and kubectl says nothing.
        if origin is None or origin == f"{asked.scheme}://{asked.host}":
            return None
        return StatusError(403, "Forbidden", f"this server takes nothing from pages of {origin}").response()


def _hostname(host: str) -> str:
    """Without the port."""
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
