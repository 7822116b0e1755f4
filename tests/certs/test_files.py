"""Certificates given as files: read again when they change, and never a step back to nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.contract.expect import eventually
from ullage.certs.files import CertificateFiles, FileFollower, read_files
from ullage.certs.serving import CertificateBundle, ReloadingTlsContext
from ullage.certs.tls_secret import TlsSecret
from ullage.clock import WallClock
from ullage.errors import Unreachable, UserError
from ullage.testing.admission import ISSUER


class Memory:
    """A registry that remembers, and can be out of reach."""

    def __init__(self) -> None:
        self.published: list[bytes | None] = []
        self.down = False

    async def trust(self, trusted: bytes | None) -> None:
        if self.down:
            raise Unreachable("no API server")
        self.published.append(trusted)


def write(folder: Path, tls_secret: TlsSecret) -> CertificateFiles:
    files = CertificateFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt", look_every=0.02)
    files.certificate.write_bytes(tls_secret.serving.certificate)
    files.key.write_bytes(tls_secret.serving.key)
    (folder / "ca.crt").write_bytes(tls_secret.trusted)
    return files


def a_tls_secret() -> TlsSecret:
    return ISSUER.start(WallClock().now())


@asynccontextmanager
async def following(
    files: CertificateFiles, registry: Memory
) -> AsyncIterator[tuple[FileFollower, ReloadingTlsContext]]:
    follower, certificate = FileFollower(files, registry), ReloadingTlsContext()

    def serve(served: CertificateBundle) -> None:
        certificate.load(served)

    running = asyncio.ensure_future(follower.run(serve))
    try:
        yield follower, certificate
    finally:
        running.cancel()
        await asyncio.wait({running})


async def until_served(certificate: ReloadingTlsContext, tls_secret: TlsSecret) -> None:
    async def now() -> CertificateBundle | None:
        return certificate.current

    await eventually(now, until=lambda served: served is not None and served.pair == tls_secret.serving)


async def test_new_files_are_registered_and_served(tmp_path: Path) -> None:
    first, second, registry = a_tls_secret(), a_tls_secret(), Memory()
    async with following(write(tmp_path, first), registry) as (_, certificate):
        await until_served(certificate, first)
        write(tmp_path, second)
        await until_served(certificate, second)
    assert registry.published[0] == first.trusted
    assert registry.published[-1] == second.trusted


async def test_files_that_do_not_belong_together_are_waited_for(tmp_path: Path) -> None:
    """A swap in two steps: for a moment the key is another certificate's."""
    first, second, registry = a_tls_secret(), a_tls_secret(), Memory()
    files = write(tmp_path, first)
    async with following(files, registry) as (_, certificate):
        await until_served(certificate, first)
        files.key.write_bytes(second.serving.key)
        await asyncio.sleep(0.1)
        assert certificate.current is not None
        assert certificate.current.pair == first.serving
        files.certificate.unlink()
        await asyncio.sleep(0.1)
        files.certificate.write_bytes(second.serving.certificate)
        await until_served(certificate, second)


async def test_what_could_not_be_registered_is_tried_again(tmp_path: Path) -> None:
    tls_secret, registry = a_tls_secret(), Memory()
    registry.down = True
    async with following(write(tmp_path, tls_secret), registry) as (_, certificate):
        await asyncio.sleep(0.1)
        registry.down = False
        await until_served(certificate, tls_secret)


async def test_what_somebody_else_changed_is_registered_again(tmp_path: Path) -> None:
    tls_secret, registry = a_tls_secret(), Memory()
    async with following(write(tmp_path, tls_secret), registry) as (follower, certificate):
        await until_served(certificate, tls_secret)
        follower.wake()

        async def published() -> int:
            return len(registry.published)

        await eventually(published, until=lambda times: times == 2)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    files = write(tmp_path, a_tls_secret())
    files.key.unlink()
    with pytest.raises(UserError, match=r"tls\.key: No such file"):
        read_files(files)
