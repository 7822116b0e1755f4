"""What every handler works with: the objects, the time, and chance from a seed."""

from datetime import UTC, datetime

from ullage.clock import Clock
from ullage.sim.apiserver.gate import Gate, OpenGate
from ullage.sim.apiserver.store import Store
from ullage.sim.apiserver.wire import JsonObject, Randomness


class World:
    """The store with a clock and a seeded random generator. Answers what admission asks about its surroundings."""

    def __init__(self, store: Store, clock: Clock, random: Randomness) -> None:
        self.store = store
        self.random = random
        self.gate: Gate = OpenGate()
        self.accounts_from_birth = False
        """Is it kept who owns which field from an object's creation on, and not only from the first apply."""
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
