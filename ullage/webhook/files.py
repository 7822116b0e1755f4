"""Certificates given as files, by cert-manager or by hand: read again when they change."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from ullage.errors import ApiError, UserError
from ullage.webhook.authority import Pair
from ullage.webhook.registrar import Registry
from ullage.webhook.tls import Served

_log = structlog.get_logger("webhook")


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where they are. Without `authority`, whom to trust is registered by somebody else."""

    certificate: Path
    key: Path
    authority: Path | None = None
    look_every: float = 10.0
    """Seconds. Mounted Secrets change by a swap of links, which no file event tells of reliably."""


def read_files(files: CertificateFiles) -> Served:
    """Raises UserError that names the file."""
    trusted = None if files.authority is None else _read(files.authority)
    return Served(Pair(_read(files.certificate), _read(files.key)), trusted)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give a readable PEM file") from error


class FileFollower:
    """Serves and registers what the files say. What makes no sense is said, and what was before goes on."""

    def __init__(self, files: CertificateFiles, registry: Registry) -> None:
        self._files = files
        self._registry = registry
        self._drifted = False

    def wake(self) -> None:
        """Register again at the next look: somebody else has changed what is trusted.

        Not at once: while files reach one replica after another, two of them would undo each other without a pause.
        """
        self._drifted = True

    async def run(self, serve: Callable[[Served], None]) -> None:
        """Until cancelled."""
        known: Served | None = None
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
