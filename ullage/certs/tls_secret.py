"""Secret that all replicas share: its contents, and its next state. `rotator` reads and writes it.

`tls.crt`, `tls.key`: the serving certificate. `ca.crt`, `ca.key`: the authority that issues it. `next-ca.crt`,
`next-ca.key`: the one after it, trusted already. `old-ca.crt`: those before it, trusted still.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ullage.certs.authority import (
    CertificatePair,
    belong_together,
    is_issued_by,
    issue,
    names_of,
    new_authority,
    span_of,
)
from ullage.decide.certs.rotation import CertificateSet, CertLifetimes, CertStep, ValidityPeriod
from ullage.errors import Unreadable
from ullage.model.units import Instant

_SERVING, _AUTHORITY, _NEXT, _RETIRED = "tls", "ca", "next-ca", "old-ca.crt"
_FOOTER = b"-----END CERTIFICATE-----\n"


@dataclass(frozen=True, slots=True)
class TlsSecret:
    """Keys and certificates of the Secret."""

    authority: CertificatePair
    serving: CertificatePair
    next: CertificatePair | None = None
    retired: tuple[bytes, ...] = ()
    """Certificates alone: they sign nothing any more."""

    @property
    def trusted(self) -> bytes:
        """Contents of caBundle, oldest authority first: promoting an authority changes nothing there."""
        upcoming = () if self.next is None else (self.next.certificate,)
        known = [self.authority.certificate, *upcoming, *self.retired]
        known.sort(key=lambda one: (span_of(one).start, one))
        return b"".join(known)

    def holdings(self, names: Sequence[str]) -> CertificateSet:
        """Validity periods and checks that `next_step` plans from."""
        return CertificateSet(
            authority=span_of(self.authority.certificate),
            serving=span_of(self.serving.certificate),
            issued_by_authority=is_issued_by(self.serving.certificate, self.authority.certificate),
            right_names=names_of(self.serving.certificate) >= frozenset(names),
            next=None if self.next is None else span_of(self.next.certificate),
            retired=tuple(span_of(one) for one in self.retired),
        )


def read_tls_secret(data: Mapping[str, bytes]) -> TlsSecret:
    """Read a Secret's data. Raises Unreadable where something is missing or does not belong together."""
    tls_secret = TlsSecret(
        _read_pair(data, _AUTHORITY),
        _read_pair(data, _SERVING),
        _read_pair(data, _NEXT) if f"{_NEXT}.crt" in data else None,
        tuple(text + _FOOTER for text in data.get(_RETIRED, b"").split(_FOOTER) if text.strip()),
    )
    for one in tls_secret.retired:
        span_of(one)
    return tls_secret


def _read_pair(data: Mapping[str, bytes], name: str) -> CertificatePair:
    try:
        pair = CertificatePair(data[f"{name}.crt"], data[f"{name}.key"])
    except KeyError as error:
        raise Unreadable(f"{error} is missing") from error
    if not belong_together(pair):
        raise Unreadable(f"{name}.key is not the key of {name}.crt")
    return pair


def write_tls_secret(tls_secret: TlsSecret) -> dict[str, bytes]:
    """Data of the Secret."""
    pairs = {_AUTHORITY: tls_secret.authority, _SERVING: tls_secret.serving, _NEXT: tls_secret.next}
    data: dict[str, bytes] = {}
    for name, pair in pairs.items():
        if pair is not None:
            data |= {f"{name}.crt": pair.certificate, f"{name}.key": pair.key}
    return data | ({_RETIRED: b"".join(tls_secret.retired)} if tls_secret.retired else {})


@dataclass(frozen=True, slots=True)
class CertIssuer:
    """Issues the serving certificate and its authority for one set of DNS names."""

    names: tuple[str, ...]
    lifetimes: CertLifetimes = field(default_factory=CertLifetimes)

    def start(self, now: float) -> TlsSecret:
        """New authority and serving certificate."""
        authority = self._authority(now)
        return TlsSecret(authority, self._serving(authority, now))

    def advance(self, tls_secret: TlsSecret, step: CertStep, now: float) -> TlsSecret:
        """Contents of the Secret after one step."""
        match step:
            case CertStep.KEEP:
                return tls_secret
            case CertStep.START_OVER:
                return self.start(now)
            case CertStep.RENEW_SERVING:
                return replace(tls_secret, serving=self._serving(tls_secret.authority, now, self._kept(tls_secret)))
            case CertStep.PREPARE_AUTHORITY:
                return replace(tls_secret, next=self._authority(now))
            case CertStep.PROMOTE_AUTHORITY:
                return self._promoted(tls_secret, now)
            case CertStep.FORGET_RETIRED:
                return replace(tls_secret, retired=tuple(one for one in tls_secret.retired if now < span_of(one).end))

    def _promoted(self, tls_secret: TlsSecret, now: float) -> TlsSecret:
        if tls_secret.next is None:
            raise ValueError("there is no next authority to promote")
        retired = (tls_secret.authority.certificate, *tls_secret.retired)
        return TlsSecret(tls_secret.next, self._serving(tls_secret.next, now), None, retired)

    def _authority(self, now: float) -> CertificatePair:
        return new_authority(
            ValidityPeriod(Instant(now - self.lifetimes.backdated), Instant(now + self.lifetimes.authority))
        )

    def _kept(self, tls_secret: TlsSecret) -> tuple[str, ...]:
        """Names to keep where ours are missing: replicas that are called otherwise must not undo each other."""
        there = names_of(tls_secret.serving.certificate)
        return () if there >= frozenset(self.names) else tuple(sorted(there - frozenset(self.names)))

    def _serving(self, authority: CertificatePair, now: float, others: Sequence[str] = ()) -> CertificatePair:
        span = ValidityPeriod(Instant(now - self.lifetimes.backdated), Instant(now + self.lifetimes.serving))
        return issue(authority, (*self.names, *others), span)
