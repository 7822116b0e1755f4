"""What is in the Secret: all of it comes back, and what does not belong together is not taken."""

import pytest

from ullage.certs.authority import is_issued_by, names_of, span_of
from ullage.certs.tls_secret import CertIssuer, TlsSecret, read_vault, write_vault
from ullage.decide.certs.rotation import CertStep
from ullage.errors import Unreadable
from ullage.testing.admission import WORKSHOP

NOW = 1_800_000_000.0
FRESH = WORKSHOP.start(NOW)
PREPARED = WORKSHOP.advance(FRESH, CertStep.PREPARE_AUTHORITY, NOW)
PROMOTED = WORKSHOP.advance(PREPARED, CertStep.PROMOTE_AUTHORITY, NOW)
AGAIN = WORKSHOP.advance(
    WORKSHOP.advance(PROMOTED, CertStep.PREPARE_AUTHORITY, NOW + 1), CertStep.PROMOTE_AUTHORITY, NOW + 2
)


@pytest.mark.parametrize(
    "vault",
    [
        pytest.param(FRESH, id="fresh"),
        pytest.param(PREPARED, id="with-a-next-authority"),
        pytest.param(PROMOTED, id="with-a-retired-one"),
        pytest.param(AGAIN, id="with-two-retired-ones"),
    ],
)
def test_what_is_written_is_read(vault: TlsSecret) -> None:
    assert read_vault(write_vault(vault)) == vault
    assert vault.trusted.count(b"BEGIN CERTIFICATE") == 1 + (vault.next is not None) + len(vault.retired)
    assert is_issued_by(vault.serving.certificate, vault.authority.certificate)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"tls.key": None}, id="a-key-is-missing"),
        pytest.param({"tls.crt": b"x"}, id="no-certificate"),
        pytest.param({"ca.key": b"x"}, id="no-key"),
        pytest.param({"tls.key": write_vault(FRESH)["ca.key"]}, id="another-key"),
        pytest.param({"next-ca.crt": write_vault(FRESH)["ca.crt"]}, id="half-a-next-authority"),
        pytest.param({"old-ca.crt": b"x"}, id="no-retired-certificate"),
    ],
)
def test_what_makes_no_sense_is_not_taken(change: dict[str, bytes | None]) -> None:
    data = {key: value for key, value in (write_vault(FRESH) | change).items() if value is not None}
    with pytest.raises(Unreadable):
        read_vault(data)


def test_a_certificate_is_for_the_names_it_is_called_by() -> None:
    vault = CertIssuer(("a.b.svc", "10.0.0.1", "::1")).start(NOW)
    assert names_of(vault.serving.certificate) == {"a.b.svc", "10.0.0.1", "::1"}
    assert vault.holdings(("10.0.0.1", "::1", "a.b.svc")).right_names
    assert vault.holdings(("a.b.svc",)).right_names
    assert not vault.holdings(("a.b.svc", "c.d.svc")).right_names


def test_replicas_with_other_names_do_not_undo_each_other() -> None:
    one, two = CertIssuer(("one",)), CertIssuer(("two",))
    vault = two.advance(one.start(NOW), CertStep.RENEW_SERVING, NOW)
    assert names_of(vault.serving.certificate) == {"one", "two"}
    assert all(vault.holdings(workshop.names).right_names for workshop in (one, two))
    assert names_of(two.advance(vault, CertStep.RENEW_SERVING, NOW).serving.certificate) == {"two"}


def test_a_certificate_never_outlives_its_authority() -> None:
    end = span_of(FRESH.authority.certificate).end
    late = WORKSHOP.advance(FRESH, CertStep.RENEW_SERVING, end - 60)
    assert span_of(late.serving.certificate).end == end
