"""What a controller has done and not yet seen: it must not act on a picture older than its own last act.

Creations are counted, deletions are known by uid. What is never seen (made and gone between two lists) is given up
after five minutes, as client-go does.
"""

from dataclasses import dataclass, field

from ullage.clock import Instant
from ullage.model.event import ObjectKey

EXPIRY_SECONDS = 300.0


@dataclass(slots=True)
class _Open:
    since: Instant
    creations: int = 0
    deletions: set[str] = field(default_factory=set)


class Expectations:
    """One account per key."""

    def __init__(self) -> None:
        self._open: dict[ObjectKey, _Open] = {}

    def met(self, key: ObjectKey, now: Instant) -> bool:
        """Has everything done for this key been seen, or been waited for long enough?"""
        account = self._open.get(key)
        if account is None:
            return True
        if account.creations <= 0 and not account.deletions:
            return True
        return now - account.since > EXPIRY_SECONDS

    def expect(self, key: ObjectKey, *, creations: int, deletions: frozenset[str], now: Instant) -> None:
        """Called before the writes go out: their echo may come before their answer."""
        self._open[key] = _Open(now, creations, set(deletions))

    def created(self, key: ObjectKey) -> None:
        """An object of this key has appeared, or its creation is known to have failed."""
        account = self._open.get(key)
        if account is not None:
            account.creations -= 1

    def deleted(self, key: ObjectKey, uid: str) -> None:
        """An object is gone or going, or its deletion is known to have failed."""
        account = self._open.get(key)
        if account is not None:
            account.deletions.discard(uid)

    def expires_at(self, key: ObjectKey) -> Instant | None:
        """When to look again although nothing was seen."""
        account = self._open.get(key)
        return None if account is None else Instant(account.since + EXPIRY_SECONDS + 1)

    def forget(self, key: ObjectKey) -> None:
        """The key's owner is gone."""
        self._open.pop(key, None)
