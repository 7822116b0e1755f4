"""Rotation of certificates: instants and order of the steps, so that no certificate is served before it is trusted.

A new authority is first only trusted (`next`), and issues the serving certificate after the overlap; the one before
stays trusted (`retired`) until it expires.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ullage.model.units import Instant, Seconds

_DAY = 86_400.0
_PUBLISH_AGAIN = Seconds(60.0)
"""Seconds until a failed registration of the CA bundle is tried again."""


@dataclass(frozen=True, slots=True)
class CertLifetimes:
    """In seconds."""

    authority: Seconds = Seconds(3 * 365 * _DAY)
    serving: Seconds = Seconds(90 * _DAY)
    overlap: Seconds = Seconds(3600.0)
    """Time a new authority is trusted before it is used: API servers and other replicas must have heard of it."""
    backdated: Seconds = Seconds(3600.0)
    """Time by which a certificate's validity begins before it is made: clocks differ."""


@dataclass(frozen=True, slots=True)
class ValidityPeriod:
    """Instants between which a certificate is valid."""

    start: Instant
    end: Instant

    def last_third(self, backdated: Seconds) -> Instant:
        """Instant at which a third of the lifetime is left, counted from the certificate's making."""
        return Instant(self.end - max(self.end - self.start - backdated, 0.0) / 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSet:
    """Certificates in the Secret, as their validity periods and checks."""

    authority: ValidityPeriod
    serving: ValidityPeriod
    issued_by_authority: bool
    right_names: bool
    """The serving certificate is for all names we are called by."""
    next: ValidityPeriod | None = None
    retired: Sequence[ValidityPeriod] = ()


class CertStep(StrEnum):
    KEEP = "keep"
    RENEW_SERVING = "renew-serving"
    PREPARE_AUTHORITY = "prepare-authority"
    PROMOTE_AUTHORITY = "promote-authority"
    FORGET_RETIRED = "forget-retired"
    START_OVER = "start-over"


@dataclass(frozen=True, slots=True)
class RotationPlan:
    """Step to take now, and the instant to look again if nothing else happens."""

    step: CertStep
    look_again: Instant
    why: str


def next_step(have: CertificateSet, lifetimes: CertLifetimes, *, now: Instant, published: bool = True) -> RotationPlan:
    """Next step only: each step is one write, and the next look finds the rest.

    `told` is true if the CA bundle could be registered with API servers. While it cannot, no new authority is used.
    """
    promote_at = None if have.next is None else have.next.start + lifetimes.backdated + lifetimes.overlap
    if promote_at is not None and not published:
        promote_at = max(promote_at, now + _PUBLISH_AGAIN)
    if now >= have.authority.end:
        if have.next is None or now >= have.next.end:
            return RotationPlan(CertStep.START_OVER, now, "the authority has expired")
        return RotationPlan(CertStep.PROMOTE_AUTHORITY, now, "the authority has expired, and the next one is trusted")
    if promote_at is None and now >= have.authority.last_third(lifetimes.backdated):
        return RotationPlan(CertStep.PREPARE_AUTHORITY, now, "a third of the authority's life is left")
    if promote_at is not None and now >= promote_at:
        return RotationPlan(CertStep.PROMOTE_AUTHORITY, now, "the next authority has been trusted long enough")
    if not have.right_names or not have.issued_by_authority:
        return RotationPlan(
            CertStep.RENEW_SERVING, now, "the serving certificate is for other names or by another authority"
        )
    if now >= _renewal(have, lifetimes):
        return RotationPlan(CertStep.RENEW_SERVING, now, "a third of the serving certificate's life is left")
    if any(now >= span.end for span in have.retired):
        return RotationPlan(CertStep.FORGET_RETIRED, now, "an authority that is no longer used has expired")
    due = have.authority.last_third(lifetimes.backdated) if promote_at is None else promote_at
    return RotationPlan(
        CertStep.KEEP,
        Instant(min(due, _renewal(have, lifetimes), *(span.end for span in have.retired))),
        "nothing is due",
    )


def _renewal(have: CertificateSet, lifetimes: CertLifetimes) -> Instant:
    """Instant of the next renewal; the end of the serving certificate if it lives as long as its authority already."""
    if have.serving.end >= have.authority.end:
        return have.serving.end
    return have.serving.last_third(lifetimes.backdated)
