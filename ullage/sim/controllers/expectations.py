"""Expectations: a controller's own writes not yet observed. It must not act on a cache older than its last write.

Creations are counted, deletions are known by uid. An object that is never observed (created and deleted between two
lists) is given up after five minutes, as client-go does.
"""

from dataclasses import dataclass, field

from ullage.clock import Instant
from ullage.model.fact_event import ObjectKey

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
        """True if all writes for this key were observed, or waited for long enough."""
        account = self._open.get(key)
        if account is None:
            return True
        if account.creations <= 0 and not account.deletions:
            return True
        return now - account.since > EXPIRY_SECONDS

    def expect(self, key: ObjectKey, *, creations: int, deletions: frozenset[str], now: Instant) -> None:
        """Called before the writes are sent: their watch events may arrive before their responses."""
        self._open[key] = _Open(now, creations, set(deletions))

    def created(self, key: ObjectKey) -> None:
        """An object of this key has appeared, or its creation is known to have failed."""
        account = self._open.get(key)
        if account is not None:
            account.creations -= 1

    def deleted(self, key: ObjectKey, uid: str) -> None:
        """An object is deleted or being deleted, or its deletion is known to have failed."""
        account = self._open.get(key)
        if account is not None:
            account.deletions.discard(uid)

    def expires_at(self, key: ObjectKey) -> Instant | None:
        """Instant at which to reconcile again although nothing was observed."""
        account = self._open.get(key)
        return None if account is None else Instant(account.since + EXPIRY_SECONDS + 1)

    def forget(self, key: ObjectKey) -> None:
        """The key's owner is gone."""
        self._open.pop(key, None)
