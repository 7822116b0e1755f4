"""The stream of what the loops announced: each action and refusal with its why, as it was written down."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ullage.clock import Clock
from ullage.kube.resource import JsonObject
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.store import Change

MOST_KEPT = 1000
EVENTS_SHELF = "events"
"""Where the server keeps Events of both spellings, as `v1` spells them."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a decision is about."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """One announcement."""

    at: float
    """Seconds since the epoch of the simulation."""
    loop: str
    """Who announced it: the loop's name."""
    reason: str
    """A word of `observe.events.EventReason`."""
    about: Subject
    note: str
    """What was done or refused, and why."""
    related: Subject | None = None
    count: int = 1
    """How often it has been announced so far, this time included."""


class Decisions:
    """Feeds whoever listens, and remembers the latest. Events themselves are forgotten after a while."""

    def __init__(self, server: SimulatedApiServer, clock: Clock) -> None:
        self.recent: deque[Decision] = deque(maxlen=MOST_KEPT)
        self._server = server
        self._clock = clock
        self._listeners: dict[int, Callable[[Decision], None]] = {}
        self._numbered = 0
        server.listen(EVENTS_SHELF, self._told)

    def listen(self, listener: Callable[[Decision], None]) -> Callable[[], None]:
        """Be told of everything from now on, until the result is called."""
        self._numbered += 1
        number = self._numbered
        self._listeners[number] = listener
        return lambda: _forget(self._listeners, number)

    def _told(self, change: Change) -> None:
        if change.deleted:
            return
        decision = _read(change.after.obj, self._clock.now(), self._server.caller)
        self.recent.append(decision)
        for listener in list(self._listeners.values()):
            listener(decision)


def _forget(listeners: dict[int, Callable[[Decision], None]], number: int) -> None:
    listeners.pop(number, None)


def _read(obj: JsonObject, now: float, caller: str) -> Decision:
    related, series = obj.get("related"), obj.get("series") or {}
    return Decision(
        at=now,
        loop=caller,
        reason=obj.get("reason", ""),
        about=_subject(obj.get("involvedObject") or {}),
        note=obj.get("message") or "",
        related=_subject(related) if related else None,
        count=int(series.get("count", 1)),
    )


def _subject(reference: JsonObject) -> Subject:
    return Subject(
        reference.get("kind", ""), reference.get("namespace", ""), reference.get("name", ""), reference.get("uid", "")
    )
