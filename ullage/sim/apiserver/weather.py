"""What lies between a client and the server: latency, lost answers, refusals, cut streams. All of it from a seed."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ullage.kube.transport import Request, Response


class Fault(Enum):
    """What happens to one call."""

    REFUSED = "refused"
    """The connection fails before the server hears anything."""
    LOST = "lost"
    """The server does it, and the answer never arrives."""
    THROTTLED = "throttled"
    """429 with a Retry-After of a second; nothing is done."""
    BROKEN = "broken"
    """500; nothing is done."""
    UNAVAILABLE = "unavailable"
    """503; nothing is done."""


@dataclass(frozen=True, slots=True)
class Odds:
    """How often each fault strikes, as a share of calls; and how often a stream is cut, per batch."""

    faults: Mapping[Fault, float] = field(default_factory=dict)
    stream_cut: float = 0.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds a call takes: by method, with a spread that a seeded draw fills. Watch lines lag by `watch`."""

    by_method: Mapping[str, float] = field(default_factory=dict)
    default: float = 0.0
    spread: float = 0.0
    """Up to this share is added."""
    watch: float = 0.0


Script = Callable[[Request], Fault | None]


class Weather:
    """The conditions one client lives under. May be changed at any time."""

    def __init__(self, *, seed: int = 0, latency: Latency | None = None, odds: Odds | None = None) -> None:
        self.latency = latency or Latency()
        self.odds = odds or Odds()
        self.partitioned = False
        """Nothing gets through until this is false again."""
        self._chance = random.Random(seed)
        self._scripts: list[Script] = []

    def script(self, script: Script) -> Callable[[], None]:
        """Let a function decide about calls before the dice do; returns what takes it back."""
        self._scripts.append(script)
        return lambda: self._scripts.remove(script)

    def next_calls(self, *faults: Fault | None, where: Callable[[Request], bool] = lambda _: True) -> None:
        """The next calls that match meet these faults, in this order; None lets one through."""
        waiting = list(faults)

        def decide(request: Request) -> Fault | None:
            return waiting.pop(0) if waiting and where(request) else None

        self._scripts.append(decide)

    def fault(self, request: Request) -> Fault | None:
        for script in self._scripts:
            if (found := script(request)) is not None:
                return found
        if not self.odds.faults:
            return None
        draw = self._chance.random()
        for fault in sorted(self.odds.faults, key=lambda item: item.value):
            draw -= self.odds.faults[fault]
            if draw < 0:
                return fault
        return None

    def delay(self, method: str) -> float:
        base = self.latency.by_method.get(method, self.latency.default)
        if base <= 0:
            return 0.0
        return base * (1 + self.latency.spread * self._chance.random())

    def cuts_stream(self) -> bool:
        return self.odds.stream_cut > 0 and self._chance.random() < self.odds.stream_cut


def answer_of(fault: Fault) -> Response | None:
    """What the client is told; None where it is told nothing."""
    return _ANSWERS.get(fault)


def _status(code: int, reason: str, message: str) -> bytes:
    head = f'{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}"'
    return f'{head},"reason":"{reason}","code":{code}}}'.encode()


_ANSWERS: Mapping[Fault, Response] = {
    Fault.THROTTLED: Response(
        429, _status(429, "TooManyRequests", "too many requests, please try again later"), retry_after=1.0
    ),
    Fault.BROKEN: Response(500, _status(500, "InternalError", "Internal error occurred: simulated")),
    Fault.UNAVAILABLE: Response(
        503, _status(503, "ServiceUnavailable", "the server is currently unable to handle the request")
    ),
}

FAULTS: Sequence[Fault] = tuple(Fault)
