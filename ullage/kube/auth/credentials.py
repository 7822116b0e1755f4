"""Credentials of the client: tokens and client certificates that may change while the process runs."""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ullage.errors import UserError
from ullage.kube.auth.tls import ClientCertificate

REREAD_SECONDS = 60.0
"""Seconds after which files are read again: a mounted service-account token is replaced well before it expires."""


@dataclass(frozen=True, slots=True)
class Credential:
    """Authorization header and client certificate of one request."""

    authorization: str = ""
    certificate: ClientCertificate | None = None


class NoCredential(Exception):
    """No credential is available now; the text gives the cause and what to check."""


class Credentials(Protocol):
    """A source of credentials that may be replaced."""

    async def current(self) -> Credential:
        """Return the credential to use now. Raises NoCredential."""
        ...

    async def renewed(self, refused: Credential) -> Credential | None:
        """Return another credential after the server refused this one; None if there is none. Raises NoCredential."""
        ...

    def describe(self) -> str:
        """Owner of the credentials and the place where they are configured, for messages."""
        ...


def bearer(token: str) -> str:
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class FixedCredentials:
    """Credentials written in the kubeconfig itself. May be empty. They are never renewed."""

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
    """Credentials in files that another process renews: read again every minute, and after a refusal."""

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
        """Read the files; on failure keep the last credential: the files may be half replaced at this instant."""
        try:
            return self._read()
        except UserError as error:
            if self._last is None:
                raise NoCredential(str(error)) from error
            return self._last


def read_token(path: Path, origin: str) -> str:
    """Read the token in a file. Raises UserError."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{origin}: cannot read the token file {path} ({error})") from error
    if not token:
        raise UserError(f"{origin}: the token file {path} is empty")
    return token
