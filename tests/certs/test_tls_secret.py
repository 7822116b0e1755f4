"""What is in the Secret: all of it comes back, and what does not belong together is not taken."""

import pytest

from ullage.certs.authority import is_issued_by, names_of, span_of
from ullage.certs.tls_secret import CertIssuer, TlsSecret, read_tls_secret, write_tls_secret
from ullage.decide.certs.rotation import CertStep
from ullage.errors import Unreadable
from ullage.model.units import Instant
from ullage.testing.admission import ISSUER

NOW = Instant(1_800_000_000.0)
FRESH = ISSUER.start(NOW)
PREPARED = ISSUER.advance(FRESH, CertStep.PREPARE_AUTHORITY, NOW)
PROMOTED = ISSUER.advance(PREPARED, CertStep.PROMOTE_AUTHORITY, NOW)
AGAIN = ISSUER.advance(
    ISSUER.advance(PROMOTED, CertStep.PREPARE_AUTHORITY, NOW + 1), CertStep.PROMOTE_AUTHORITY, NOW + 2
)


@pytest.mark.parametrize(
    "tls_secret",
    [
        pytest.param(FRESH, id="fresh"),
        pytest.param(PREPARED, id="with-a-next-authority"),
        pytest.param(PROMOTED, id="with-a-retired-one"),
        pytest.param(AGAIN, id="with-two-retired-ones"),
    ],
)
def test_what_is_written_is_read(tls_secret: TlsSecret) -> None:
    assert read_tls_secret(write_tls_secret(tls_secret)) == tls_secret
    assert tls_secret.trusted.count(b"BEGIN CERTIFICATE") == 1 + (tls_secret.next is not None) + len(tls_secret.retired)
    assert is_issued_by(tls_secret.serving.certificate, tls_secret.authority.certificate)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"tls.key": None}, id="a-key-is-missing"),
        pytest.param({"tls.crt": b"x"}, id="no-certificate"),
        pytest.param({"ca.key": b"x"}, id="no-key"),
        pytest.param({"tls.key": write_tls_secret(FRESH)["ca.key"]}, id="another-key"),
        pytest.param({"next-ca.crt": write_tls_secret(FRESH)["ca.crt"]}, id="half-a-next-authority"),
        pytest.param({"old-ca.crt": b"x"}, id="no-retired-certificate"),
    ],
)
def test_what_makes_no_sense_is_not_taken(change: dict[str, bytes | None]) -> None:
    data = {key: value for key, value in (write_tls_secret(FRESH) | change).items() if value is not None}
    with pytest.raises(Unreadable):
        read_tls_secret(data)


def test_a_certificate_is_for_the_names_it_is_called_by() -> None:
    tls_secret = CertIssuer(("a.b.svc", "10.0.0.1", "::1")).start(NOW)
    assert names_of(tls_secret.serving.certificate) == {"a.b.svc", "10.0.0.1", "::1"}
    assert tls_secret.holdings(("10.0.0.1", "::1", "a.b.svc")).right_names
    assert tls_secret.holdings(("a.b.svc",)).right_names
    assert not tls_secret.holdings(("a.b.svc", "c.d.svc")).right_names


def test_replicas_with_other_names_do_not_undo_each_other() -> None:
    one, two = CertIssuer(("one",)), CertIssuer(("two",))
    tls_secret = two.advance(one.start(NOW), CertStep.RENEW_SERVING, NOW)
    assert names_of(tls_secret.serving.certificate) == {"one", "two"}
    assert all(tls_secret.holdings(issuer.names).right_names for issuer in (one, two))
    assert names_of(two.advance(tls_secret, CertStep.RENEW_SERVING, NOW).serving.certificate) == {"two"}


def test_a_certificate_never_outlives_its_authority() -> None:
    end = span_of(FRESH.authority.certificate).end
    late = ISSUER.advance(FRESH, CertStep.RENEW_SERVING, end - 60)
    assert span_of(late.serving.certificate).end == end
