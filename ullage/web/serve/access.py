"""Access to the dashboard: everybody on loopback, elsewhere only with the token. The dashboard is read-only.

A browser sends the token once (`?token=…`) and gets a cookie for it; programs send `Authorization: Bearer`.
"""

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping

from ullage.errors import UserError

COOKIE = "ullage-dashboard"
SHORTEST_TOKEN = 16
"""Characters. A shorter token can be guessed."""


def is_loopback(host: str) -> bool:
    """True if only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_may_listen(host: str, token: str) -> None:
    """Raises UserError if other machines could read the dashboard without a token, or if the token is invalid."""
    if token and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        raise UserError(f"--token-file: a token has at least {SHORTEST_TOKEN} printable characters and no blanks")
    if not token and not is_loopback(host):
        raise UserError(
            f"--listen: {host} can be reached from other machines, so a token is needed: "
            "give --token-file FILE, or listen on 127.0.0.1"
        )


class TokenGate:
    """Admits requests with the token; all requests if there is none."""

    def __init__(self, token: str = "") -> None:
        self._digest = _digest(token) if token else b""

    @property
    def open(self) -> bool:
        return not self._digest

    @property
    def cookie(self) -> str:
        """Cookie that a browser keeps instead of the token.

        It admits to this dashboard and does not reveal the token.
        """
        return hashlib.sha256(b"cookie" + self._digest).hexdigest()

    def knows(self, token: str) -> bool:
        """True if the token is right. Compared in constant time, whatever its length."""
        return self.open or hmac.compare_digest(_digest(token), self._digest)

    def admits(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.knows(token.strip())
        return self.open or hmac.compare_digest(cookies.get(COOKIE, "").encode(), self.cookie.encode())


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def host_is_meant(host_header: str, listening: str) -> bool:
    """True if the Host header is a loopback name, or if the server does not listen on loopback.

    A page elsewhere can point its own name at 127.0.0.1 and read the responses; then the name is not one of this
    machine's.
    """
    if not is_loopback(listening):
        return True
    name = host_header.rsplit(":", 1)[0] if not host_header.endswith("]") else host_header
    return is_loopback(name.strip("[]"))
