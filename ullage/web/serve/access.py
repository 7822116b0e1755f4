"""Who may look: everybody on loopback, elsewhere who has the token. Nothing here is ever written to.

A browser shows the token once (`?token=…`) and gets a cookie for it; programs send `Authorization: Bearer`.
"""

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping

from ullage.errors import UserError

COOKIE = "ullage-dashboard"
SHORTEST_TOKEN = 16
"""Characters. A shorter one can be guessed."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_may_listen(host: str, token: str) -> None:
    """Raises UserError where anybody could look without being asked who they are."""
    if token and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        raise UserError(f"--token-file: a token has at least {SHORTEST_TOKEN} printable characters and no blanks")
    if not token and not is_loopback(host):
        raise UserError(
            f"--listen: {host} can be reached from other machines, so a token is needed: "
            "give --token-file FILE, or listen on 127.0.0.1"
        )


class Gate:
    """Lets in who knows the token; everybody where there is none."""

    def __init__(self, token: str = "") -> None:
        self._digest = _digest(token) if token else b""

    @property
    def open(self) -> bool:
        return not self._digest

    @property
    def cookie(self) -> str:
        """What a browser keeps instead of the token: it opens this door and tells nothing."""
        return hashlib.sha256(b"cookie" + self._digest).hexdigest()

    def knows(self, token: str) -> bool:
        """Compared in constant time, whatever its length."""
        return self.open or hmac.compare_digest(_digest(token), self._digest)

    def admits(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.knows(token.strip())
        return self.open or hmac.compare_digest(cookies.get(COOKIE, "").encode(), self.cookie.encode())


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def host_is_meant(host_header: str, listening: str) -> bool:
    """On loopback: whether the browser came by a name of this machine.

    A page elsewhere can point its own name at 127.0.0.1 and read what it gets; then the name is not ours.
    """
    if not is_loopback(listening):
        return True
    name = host_header.rsplit(":", 1)[0] if not host_header.endswith("]") else host_header
    return is_loopback(name.strip("[]"))
