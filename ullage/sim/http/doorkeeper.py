"""Who may come in: on loopback everybody who really means this server, elsewhere whoever shows the token."""

import hmac
import ipaddress
import secrets
from dataclasses import dataclass

from aiohttp import web

from ullage.kube.transport import Response
from ullage.sim.apiserver.refusal import Refusal

_TOKEN_BYTES = 32


def is_loopback(host: str) -> bool:
    """Only addresses that cannot be reached from outside, and the one name that means them."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """Without a token, a browser that was led here by a name of somebody else's is sent away."""

    token: str = ""

    def refusal(self, asked: web.Request) -> Response | None:
        if self.token:
            kind, _, said = asked.headers.get("Authorization", "").partition(" ")
            if kind.lower() == "bearer" and hmac.compare_digest(said.strip().encode(), self.token.encode()):
                return None
            return Refusal(401, "Unauthorized", "Unauthorized").response()
        if is_loopback(_hostname(asked.host)):
            return None
        message = f"this server answers to loopback names only, and was called {asked.host}"
        return Refusal(403, "Forbidden", message).response()


def _hostname(host: str) -> str:
    """Without the port."""
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
