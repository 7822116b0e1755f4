"""Stream of the loops' decisions: each action and refusal with its reason, read from Events as they are stored."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ullage.clock import Clock
from ullage.kube.client.resource import JsonObject
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange

MOST_KEPT = 1000
EVENTS_SHELF = "events"
"""Resource under which the server stores Events of both API groups, in the form of `v1`."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Object that a decision is about."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision, as announced by an Event."""

    at: float
    """Seconds since the epoch of the simulation."""
    loop: str
    """Name of the process that wrote the Event."""
    reason: str
    """A value of `observe.events.EventReason`."""
    about: Subject
    note: str
    """Text of the Event: the action or refusal, and its reason."""
    related: Subject | None = None
    count: int = 1
    """Number of times it has been announced, this time included."""


class DecisionLog:
    """Calls listeners with each decision and keeps the latest. Events themselves expire on the server."""

    def __init__(self, server: SimulatedApiServer, clock: Clock) -> None:
        self.recent: deque[Decision] = deque(maxlen=MOST_KEPT)
        self._server = server
        self._clock = clock
        self._listeners: dict[int, Callable[[Decision], None]] = {}
        self._numbered = 0
        server.listen(EVENTS_SHELF, self._observe)

    def listen(self, listener: Callable[[Decision], None]) -> Callable[[], None]:
        """Call `listener` with every decision from now on. Call the result to stop."""
        self._numbered += 1
        number = self._numbered
        self._listeners[number] = listener
        return lambda: _forget(self._listeners, number)

    def _observe(self, change: StoredChange) -> None:
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
