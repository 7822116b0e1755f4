"""TLS: trusted authorities, the client certificate and its expiry. No key is left on disk by this module."""

import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime

from ullage.errors import UserError

_SEQUENCE, _UTC_TIME, _EXPLICIT_VERSION = 0x30, 0x17, 0xA0


@dataclass(frozen=True, slots=True)
class Pem:
    """PEM text with its source, for messages."""

    data: bytes
    origin: str


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """Client certificate and key, shown to a server that trusts their issuer."""

    certificate: Pem
    key: Pem


@dataclass(frozen=True, slots=True)
class ServerTrust:
    """Verification of the server's certificate. Without an authority, the machine's own authorities are trusted."""

    authority: Pem | None = None
    skip_verify: bool = False
    server_name: str = ""
    """Name the certificate must be valid for, if it is not the host of the address."""


def make_context(trust: ServerTrust, identity: ClientCertificate | None) -> ssl.SSLContext:
    """Make a client's TLS context. Raises UserError for an invalid PEM."""
    try:
        authority = trust.authority.data.decode("ascii") if trust.authority else None
        context = ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        where = trust.authority.origin if trust.authority else "the machine's certificates"
        raise UserError(f"{where}: not a PEM certificate ({error}); give the cluster's CA certificate") from error
    # As Go does: what was given is trusted, whether or not it signed itself, and small formal flaws are forgiven.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if trust.skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity is not None:
        _present(context, identity)
    return context


def _present(context: ssl.SSLContext, identity: ClientCertificate) -> None:
    """Load certificate and key. OpenSSL reads files only: the file is private and deleted before the return."""

    def refuse_encrypted() -> str:
        raise UserError(f"{identity.key.origin}: the key is encrypted; give one without a passphrase")

    with tempfile.NamedTemporaryFile(prefix="ullage-", suffix=".pem") as pair:
        pair.write(identity.certificate.data + b"\n" + identity.key.data + b"\n")
        pair.flush()
        try:
            context.load_cert_chain(pair.name, password=refuse_encrypted)
        except ssl.SSLError as error:
            raise UserError(
                f"{identity.certificate.origin} and {identity.key.origin}: "
                f"not a certificate and its key in PEM ({error}); check that they belong together"
            ) from error


def expires(pem: Pem) -> datetime | None:
    """Return the expiry (notAfter) of the first certificate in a PEM text; None if it cannot be read."""
    try:
        text = pem.data.decode("ascii")
        begin, end = text.index(ssl.PEM_HEADER), text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)
        return _not_after(ssl.PEM_cert_to_DER_cert(text[begin:end]))
    except (ValueError, IndexError):
        return None


def _not_after(der: bytes) -> datetime:
    """Return the end of a certificate's validity, by walking the fields before it.

    Certificate is a SEQUENCE that begins with tbsCertificate, a SEQUENCE of: version [0] (optional), serialNumber,
    signature, issuer, validity (a SEQUENCE of notBefore and notAfter), and more.
    """
    _, certificate, _ = _field(der)
    _, signed_part, _ = _field(certificate)
    tag, _, rest = _field(signed_part)
    for _ in range(3 if tag == _EXPLICIT_VERSION else 2):
        _, _, rest = _field(rest)
    tag, validity, _ = _field(rest)
    if tag != _SEQUENCE:
        raise ValueError("no validity where it should be")
    _, _, rest = _field(validity)
    tag, moment, _ = _field(rest)
    digits = moment.decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year: 1950 to 2049
        digits = ("19" if digits[:2] >= "50" else "20") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _field(der: bytes) -> tuple[int, bytes, bytes]:
    """Tag and content of the first DER field, and what follows it."""
    tag, length, start = der[0], der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start], "big")
    return tag, der[start : start + length], der[start + length :]
