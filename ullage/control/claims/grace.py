"""Since when statuses have been wrong, and when they are to be put right at the latest."""

from typing import NamedTuple

from ullage.decide.claim_status import A_WHILE, patience
from ullage.model.claim import Claim
from ullage.model.event import ObjectKey
from ullage.model.standing import Standing


class _Wrong(NamedTuple):
    since: float
    """In whatever way."""
    instead_of: tuple[str, str, str]
    """What it should say: of which claim, phase and word."""
    so_since: float


class Grace:
    """How long each claim's status may stay wrong: what is true has to be true for a moment, but not for ever anew."""

    def __init__(self) -> None:
        self._wrong: dict[ObjectKey, _Wrong] = {}

    def due(self, claim: Claim, standing: Standing, now: float) -> float:
        """When this is to be written, if it is still true then."""
        truth = standing.uid, standing.phase.value, standing.word
        before = self._wrong.get(claim.key)
        if before is None or before.instead_of != truth:
            since = now if before is None or before.instead_of[0] != standing.uid else before.since
            before = self._wrong[claim.key] = _Wrong(since, truth, now)
        return min(before.so_since + patience(claim, standing), before.since + A_WHILE)

    def end(self, claim: ObjectKey) -> None:
        """It is right now, or gone."""
        self._wrong.pop(claim, None)
