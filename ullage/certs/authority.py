"""Issue and read certificates, with a certificate authority of our own. No I/O, no clock.

Keys are EC P-256. Serial numbers and keys come from the system's randomness: a certificate must not be foreseeable.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ullage.decide.certs.rotation import ValidityPeriod
from ullage.errors import Unreadable
from ullage.model.units import Instant

_AUTHORITY_NAME = "ullage webhook authority"


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


def new_authority(span: ValidityPeriod) -> CertificatePair:
    """New authority that may issue certificates for servers, and no further authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _AUTHORITY_NAME)])
    certificate = (
        _builder(name, name, key.public_key(), span)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def issue(authority: CertificatePair, names: Sequence[str], span: ValidityPeriod) -> CertificatePair:
    """A certificate for a server called by these names or addresses; never good for longer than its authority."""
    issuer = _certificate(authority.certificate)
    issuer_key = _key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    within = ValidityPeriod(span.start, Instant(min(span.end, issuer.not_valid_after_utc.timestamp())))
    certificate = (
        _builder(subject, issuer.subject, key.public_key(), within)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return _pair(certificate, key)


def span_of(certificate: bytes) -> ValidityPeriod:
    """Validity period of a certificate. Raises Unreadable."""
    read = _certificate(certificate)
    return ValidityPeriod(Instant(read.not_valid_before_utc.timestamp()), Instant(read.not_valid_after_utc.timestamp()))


def names_of(certificate: bytes) -> frozenset[str]:
    """The names and addresses it is for. Raises Unreadable."""
    try:
        names = _certificate(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])


def is_issued_by(certificate: bytes, authority: bytes) -> bool:
    """True if this very authority signed the certificate. Raises Unreadable."""
    try:
        _certificate(certificate).verify_directly_issued_by(_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def belong_together(pair: CertificatePair) -> bool:
    """True if the key is the certificate's. Raises Unreadable."""
    return _certificate(pair.certificate).public_key() == _key(pair.key).public_key()


def der_of(certificate: bytes) -> bytes:
    """The first certificate of a PEM text, as it goes over the wire. Raises Unreadable."""
    return _certificate(certificate).public_bytes(serialization.Encoding.DER)


def _certificate(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise Unreadable(f"not a certificate in PEM: {error}") from error


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise Unreadable(f"not a private key in PEM: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Unreadable("not an elliptic-curve key")
    return key


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> CertificatePair:
    written = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return CertificatePair(certificate.public_bytes(serialization.Encoding.PEM), written)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, span: ValidityPeriod
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(span.start, UTC))
        .not_valid_after(datetime.fromtimestamp(span.end, UTC))
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
