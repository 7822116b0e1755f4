"""Shared context of all request handlers: store, clock and seeded randomness."""

from datetime import UTC, datetime

from ullage.clock import Clock
from ullage.sim.apiserver.request.admission import AdmissionChain, AlwaysAdmit
from ullage.sim.apiserver.storage.json_bytes import JsonObject, Randomness
from ullage.sim.apiserver.storage.store import Store


class ServerContext:
    """The store with a clock and a seeded random generator. Answers what admission asks about its surroundings."""

    def __init__(self, store: Store, clock: Clock, random: Randomness) -> None:
        self.store = store
        self.random = random
        self.gate: AdmissionChain = AlwaysAdmit()
        self.accounts_from_birth = False
        """True if field owners are recorded from an object's creation on, instead of from the first apply."""
        self._clock = clock
        self._stamp: tuple[int, str] = (-1, "")

    def now(self) -> float:
        return self._clock.now()

    def timestamp(self) -> str:
        second = int(self._clock.now())
        if self._stamp[0] != second:
            self._stamp = (second, rfc3339(second))
        return self._stamp[1]

    def find(self, resource: str, key: str) -> JsonObject | None:
        stored = self.store.shelf(resource).get(key)
        return stored.obj if stored else None

    def all(self, resource: str) -> list[JsonObject]:
        return [stored.obj for stored in self.store.shelf(resource).values()]


def rfc3339(seconds: float) -> str:
    """A moment as metadata spells it: whole seconds, UTC."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """And back; also reads fractions."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
