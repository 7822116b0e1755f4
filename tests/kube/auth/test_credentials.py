"""Tokens that change while we run, and certificates that end."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ullage.errors import UserError
from ullage.kube.auth.credentials import Credential, FileCredentials, NoCredential, bearer, read_token
from ullage.kube.auth.tls import Pem, expires
from ullage.sim.virtual_time import run_virtual
from ullage.testing.controlplane.certificates import CertificateAuthority, Validity


def token_in(path: Path) -> FileCredentials:
    return FileCredentials(lambda: Credential(bearer(read_token(path, "test"))), "test")


def test_a_rotated_token_is_read_again_within_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    async def story() -> None:
        credentials = token_in(path)
        assert (await credentials.current()).authorization == "Bearer old"
        path.write_text("new")
        await asyncio.sleep(30)
        assert (await credentials.current()).authorization == "Bearer old"
        await asyncio.sleep(30)
        assert (await credentials.current()).authorization == "Bearer new"

    run_virtual(story())


def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    async def story() -> None:
        credentials = token_in(path)
        refused = await credentials.current()
        assert await credentials.renewed(refused) is None
        path.write_text("new")
        assert await credentials.renewed(refused) == Credential("Bearer new")
        assert await credentials.current() == Credential("Bearer new")

    run_virtual(story())


def test_a_token_that_cannot_be_read_for_a_moment_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    async def story() -> None:
        credentials = token_in(path)
        before = await credentials.current()
        path.unlink()
        await asyncio.sleep(61)
        assert await credentials.current() == before

    run_virtual(story())


def test_a_token_that_was_never_there_is_no_credential(tmp_path: Path) -> None:
    with pytest.raises(NoCredential, match="cannot read the token file"):
        run_virtual(token_in(tmp_path / "nowhere").current())
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(UserError, match="is empty"):
        read_token(tmp_path / "empty", "test")


@pytest.mark.parametrize("days", [-400, -1, 1, 9000, 20_000], ids=lambda days: f"{days}-days-from-now")
def test_the_end_of_a_certificate_is_read(days: int) -> None:
    """Beyond 2049 the end is written in another form."""
    validity = Validity(start=timedelta(days=-500), end=timedelta(days=days))
    ends = expires(Pem(CertificateAuthority().client("x", validity=validity).certificate, "test"))
    assert ends is not None
    assert abs(ends - datetime.now(UTC) - timedelta(days=days)) < timedelta(minutes=5)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pem",
        b"\xff",
        b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\n%%\n-----END CERTIFICATE-----\n",
    ],
)
def test_what_is_no_certificate_has_no_end(data: bytes) -> None:
    assert expires(Pem(data, "test")) is None
