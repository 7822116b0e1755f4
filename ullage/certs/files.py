"""Certificates given as files, by cert-manager or by hand: read again when they change."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from ullage.certs.authority import CertificatePair
from ullage.certs.rotator import CaBundleSink
from ullage.certs.serving import CertificateBundle
from ullage.errors import ApiError, UserError

_log = structlog.get_logger("webhook")


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Paths of the certificate files. Without `authority`, the registered caBundle is left as another writer set it."""

    certificate: Path
    key: Path
    authority: Path | None = None
    look_every: float = 10.0
    """Seconds. Mounted Secrets change by a swap of links, which no file event tells of reliably."""


def read_files(files: CertificateFiles) -> CertificateBundle:
    """Raises UserError that names the file."""
    trusted = None if files.authority is None else _read(files.authority)
    return CertificateBundle(CertificatePair(_read(files.certificate), _read(files.key)), trusted)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give a readable PEM file") from error


class FileFollower:
    """Serves and registers the certificates of the files. Unreadable files are logged; the certificate before stays."""

    def __init__(self, files: CertificateFiles, registry: CaBundleSink) -> None:
        self._files = files
        self._registry = registry
        self._drifted = False

    def wake(self) -> None:
        """Register again at the next look: another writer has changed the caBundle.

        Not at once: while files reach one replica after another, two of them would undo each other without a pause.
        """
        self._drifted = True

    async def run(self, serve: Callable[[CertificateBundle], None]) -> None:
        """Until cancelled."""
        known: CertificateBundle | None = None
        while True:
            try:
                found = await asyncio.to_thread(read_files, self._files)
                if found != known or self._drifted:
                    self._drifted = False
                    await self._registry.trust(found.trusted)
                    serve(found)
                    known = found
            except (ApiError, UserError) as error:
                known = None
                _log.warning("certificate files", trouble=str(error))
            await asyncio.sleep(self._files.look_every)
