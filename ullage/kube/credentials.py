"""Who we are, freshly: tokens and client certificates that may change while we run."""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ullage.errors import UserError
from ullage.kube.tls import ClientCertificate

REREAD_SECONDS = 60.0
"""Files are looked at again after this long: a mounted service-account token is replaced well before it ends."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What one request carries."""

    authorization: str = ""
    certificate: ClientCertificate | None = None


class NoCredential(Exception):
    """There is nothing to show the server right now; the text says why and what to check."""


class Credentials(Protocol):
    """A source of credentials that may be replaced."""

    async def current(self) -> Credential:
        """What to use now. Raises NoCredential."""
        ...

    async def renewed(self, refused: Credential) -> Credential | None:
        """Another one, now that the server refused this one; None if there is no other. Raises NoCredential."""
        ...

    def describe(self) -> str:
        """Whose credentials they are and where they are configured, for messages."""
        ...


def bearer(token: str) -> str:
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class FixedCredentials:
    """What the kubeconfig says, word for word; also nothing at all."""

    def __init__(self, credential: Credential, description: str) -> None:
        self._credential = credential
        self._description = description

    async def current(self) -> Credential:
        return self._credential

    async def renewed(self, refused: Credential) -> Credential | None:  # noqa: ARG002 - there is no other
        return None

    def describe(self) -> str:
        return self._description


class FileCredentials:
    """Credentials in files that someone else keeps up to date: read again every minute, and when they are refused."""

    def __init__(self, read: Callable[[], Credential], description: str) -> None:
        self._read = read
        self._description = description
        self._last: Credential | None = None
        self._read_again_at = 0.0

    async def current(self) -> Credential:
        now = asyncio.get_running_loop().time()
        if self._last is None or now >= self._read_again_at:
            self._last = self._read_or_keep()
            self._read_again_at = now + REREAD_SECONDS
        return self._last

    async def renewed(self, refused: Credential) -> Credential | None:
        self._read_again_at = 0.0
        latest = await self.current()
        return latest if latest != refused else None

    def describe(self) -> str:
        return self._description

    def _read_or_keep(self) -> Credential:
        """The files may be half replaced this very moment; what was read before is good until the server says no."""
        try:
            return self._read()
        except UserError as error:
            if self._last is None:
                raise NoCredential(str(error)) from error
            return self._last


def read_token(path: Path, origin: str) -> str:
    """The token in a file. Raises UserError."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{origin}: cannot read the token file {path} ({error})") from error
    if not token:
        raise UserError(f"{origin}: the token file {path} is empty")
    return token
