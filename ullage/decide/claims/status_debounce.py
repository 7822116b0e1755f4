"""StatusDebounce: since when claim statuses have been wrong, and when they are written at the latest."""

from typing import NamedTuple

from ullage.decide.claims.status import A_WHILE, patience
from ullage.model.claim import Claim
from ullage.model.claim_status import ClaimStatus
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant


class _Wrong(NamedTuple):
    since: Instant
    """Instant since which the status has been wrong in any way."""
    instead_of: tuple[str, str, str]
    """Uid of the claim, phase and reason that the status should have."""
    so_since: Instant


class StatusDebounce:
    """Delays status writes: a new status has to hold for a moment, and repeated changes delay no write for ever."""

    def __init__(self) -> None:
        self._wrong: dict[ObjectKey, _Wrong] = {}

    def due(self, claim: Claim, desired: ClaimStatus, now: Instant) -> Instant:
        """Instant at which this status is to be written, if it still holds then."""
        truth = desired.uid, desired.phase.value, desired.word
        before = self._wrong.get(claim.key)
        if before is None or before.instead_of != truth:
            since = now if before is None or before.instead_of[0] != desired.uid else before.since
            before = self._wrong[claim.key] = _Wrong(since, truth, now)
        return Instant(min(before.so_since + patience(claim, desired), before.since + A_WHILE))

    def end(self, claim: ObjectKey) -> None:
        """The status is right now, or the claim is gone."""
        self._wrong.pop(claim, None)
