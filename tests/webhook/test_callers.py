"""Who is answered: everybody who reaches the port, or who shows a certificate."""

import ssl
from pathlib import Path

import aiohttp
import pytest

from ullage.errors import UserError
from ullage.testing.admission import a_review, a_server, encoded, trusting
from ullage.testing.builders import a_pod
from ullage.testing.controlplane.certificates import EXPIRED, CertificateAuthority, KeyPair
from ullage.webhook.callers import Callers

GOOD = encoded(a_review(a_pod("p")))
OURS, THEIRS = CertificateAuthority("control-plane"), CertificateAuthority("somebody")
API_SERVER = OURS.client("kube-apiserver-admission")


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    path = tmp_path / "client-ca.pem"
    path.write_bytes(OURS.certificate)
    return path


def showing(context: ssl.SSLContext, pair: KeyPair | None, folder: Path) -> ssl.SSLContext:
    if pair is not None:
        certificate, key = folder / "client.pem", folder / "client.key"
        pair.write(certificate, key)
        context.load_cert_chain(certificate, key)
    return context


@pytest.mark.parametrize(
    ("pair", "names", "status"),
    [
        pytest.param(API_SERVER, (), 200, id="certified"),
        pytest.param(API_SERVER, ("kube-apiserver-admission",), 200, id="certified-by-that-name"),
        pytest.param(OURS.client("alice"), ("kube-apiserver-admission",), 401, id="somebody-elses"),
        pytest.param(None, (), 401, id="none-shown"),
        pytest.param(THEIRS.client("kube-apiserver-admission"), (), None, id="of-another-authority"),
        pytest.param(OURS.client("kube-apiserver-admission", validity=EXPIRED), (), None, id="expired"),
    ],
)
async def test_who_shows_what(
    authority: Path, tmp_path: Path, pair: KeyPair | None, names: tuple[str, ...], status: int | None
) -> None:
    async with a_server(callers=Callers(authority, names)) as stage:
        context = showing(trusting(stage.tls_secret), pair, tmp_path)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            if status is None:
                with pytest.raises(aiohttp.ClientError):
                    await session.post(f"{stage.url}/mutate", data=GOOD)
                return
            async with session.post(f"{stage.url}/mutate", data=GOOD) as answer:
                assert answer.status == status
                said = await answer.json()
                assert (said["kind"], "response" in said) == (
                    ("AdmissionReview", True) if status == 200 else ("Status", False)
                )


async def test_without_an_authority_everybody_is_answered() -> None:
    async with a_server() as stage, stage.session.post(f"{stage.url}/mutate", data=GOOD) as answer:
        assert answer.status == 200


async def test_an_authority_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    for path in (wrong, tmp_path / "missing.pem"):
        with pytest.raises(UserError, match=str(path)):
            async with a_server(callers=Callers(path)):
                pass
