"""When certificates are made anew, and in which order, so that nothing is ever served that is not trusted yet.

A new authority is first only trusted (`next`), and issues the serving certificate after the overlap; the one before
stays trusted (`retired`) until it expires.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

_DAY = 86_400.0
_TELL_AGAIN = 60.0
"""Seconds until API servers that could not be told are told again."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """In seconds."""

    authority: float = 3 * 365 * _DAY
    serving: float = 90 * _DAY
    overlap: float = 3600.0
    """How long a new authority is trusted before it is used: API servers and other replicas must have heard of it."""
    backdated: float = 3600.0
    """How long before its making a certificate begins to be good: clocks differ."""


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when a certificate is good."""

    start: float
    end: float

    def last_third(self, backdated: float) -> float:
        """When a third of its life is left, counted from its making."""
        return self.end - max(self.end - self.start - backdated, 0.0) / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What there is."""

    authority: Span
    serving: Span
    issued_by_authority: bool
    right_names: bool
    """The serving certificate is for all names we are called by."""
    next: Span | None = None
    retired: Sequence[Span] = ()


class Step(StrEnum):
    KEEP = "keep"
    RENEW_SERVING = "renew-serving"
    PREPARE_AUTHORITY = "prepare-authority"
    PROMOTE_AUTHORITY = "promote-authority"
    FORGET_RETIRED = "forget-retired"
    START_OVER = "start-over"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, and when to look again if nothing else happens."""

    step: Step
    look_again: float
    why: str


def next_step(have: Holdings, lifetimes: Lifetimes, *, now: float, told: bool = True) -> Plan:
    """One step at a time: each is one write, and the next look finds the rest.

    `told` is whether API servers could be told whom to trust. While they cannot, no new authority is used.
    """
    promote_at = None if have.next is None else have.next.start + lifetimes.backdated + lifetimes.overlap
    if promote_at is not None and not told:
        promote_at = max(promote_at, now + _TELL_AGAIN)
    if now >= have.authority.end:
        if have.next is None or now >= have.next.end:
            return Plan(Step.START_OVER, now, "the authority has expired")
        return Plan(Step.PROMOTE_AUTHORITY, now, "the authority has expired, and the next one is trusted")
    if promote_at is None and now >= have.authority.last_third(lifetimes.backdated):
        return Plan(Step.PREPARE_AUTHORITY, now, "a third of the authority's life is left")
    if promote_at is not None and now >= promote_at:
        return Plan(Step.PROMOTE_AUTHORITY, now, "the next authority has been trusted long enough")
    if not have.right_names or not have.issued_by_authority:
        return Plan(Step.RENEW_SERVING, now, "the serving certificate is for other names or by another authority")
    if now >= _renewal(have, lifetimes):
        return Plan(Step.RENEW_SERVING, now, "a third of the serving certificate's life is left")
    if any(now >= span.end for span in have.retired):
        return Plan(Step.FORGET_RETIRED, now, "an authority that is no longer used has expired")
    due = have.authority.last_third(lifetimes.backdated) if promote_at is None else promote_at
    return Plan(Step.KEEP, min(due, _renewal(have, lifetimes), *(span.end for span in have.retired)), "nothing is due")


def _renewal(have: Holdings, lifetimes: Lifetimes) -> float:
    """When the serving certificate is renewed: never, where it lives as long as its authority already."""
    if have.serving.end >= have.authority.end:
        return have.serving.end
    return have.serving.last_third(lifetimes.backdated)
