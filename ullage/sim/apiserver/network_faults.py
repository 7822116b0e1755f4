"""Network faults between one client and the simulated API server: latency, lost responses, rejections,
cut watches. Seeded.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ullage.kube.client.transport import Request, Response


class NetworkFault(Enum):
    """Fault of one call."""

    REFUSED = "refused"
    """The connection fails before the server receives the request."""
    LOST = "lost"
    """The server handles the request, and the response is lost."""
    THROTTLED = "throttled"
    """429 with a Retry-After of one second; the request is not handled."""
    BROKEN = "broken"
    """500; the request is not handled."""
    UNAVAILABLE = "unavailable"
    """503; the request is not handled."""
    CONFLICT = "conflict"
    """409; somebody else's write came first. Only for changes of an object that exists."""
    EXPIRED = "expired"
    """410; the server has forgotten the revision. Only for watches and pages of lists."""


@dataclass(frozen=True, slots=True)
class FaultRates:
    """Rate of each fault, as a share of calls, and rate of cut watches, as a share of batches."""

    faults: Mapping[NetworkFault, float] = field(default_factory=dict)
    stream_cut: float = 0.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of a call in seconds, by method, with a seeded spread. Watch lines lag by `watch`."""

    by_method: Mapping[str, float] = field(default_factory=dict)
    default: float = 0.0
    spread: float = 0.0
    """Share of the latency that is added at most."""
    watch: float = 0.0
    each: float = 0.0
    """Seconds for which a call keeps client and server busy: calls of one client at the same time wait for each other
    so long."""


Script = Callable[[Request], NetworkFault | None]


class NetworkConditions:
    """Network conditions of one client. May be changed at any time."""

    def __init__(self, *, seed: int = 0, latency: Latency | None = None, odds: FaultRates | None = None) -> None:
        self.latency = latency or Latency()
        self.odds = odds or FaultRates()
        self.partitioned = False
        """True while nothing gets through."""
        self._chance = random.Random(seed)
        self._scripts: list[Script] = []
        self._busy_until = 0.0

    def script(self, script: Script) -> Callable[[], None]:
        """Let a function decide about calls before the random draw; the returned function removes it."""
        self._scripts.append(script)
        return lambda: self._scripts.remove(script)

    def next_calls(self, *faults: NetworkFault | None, where: Callable[[Request], bool] = lambda _: True) -> None:
        """Faults of the next matching calls, in this order; None lets one call through."""
        waiting = list(faults)

        def decide(request: Request) -> NetworkFault | None:
            return waiting.pop(0) if waiting and where(request) else None

        self._scripts.append(decide)

    def fault(self, request: Request) -> NetworkFault | None:
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

    def reaches(self, request: Request) -> bool:  # noqa: ARG002 - who counts requests wants to see them
        """True unless nothing gets through."""
        return not self.partitioned

    def delay(self, method: str) -> float:
        base = self.latency.by_method.get(method, self.latency.default)
        if base <= 0:
            return 0.0
        return base * (1 + self.latency.spread * self._chance.random())

    def turn(self, now: float) -> float:
        """Seconds until the next call has its turn, counted from the steady time `now`."""
        began = max(now, self._busy_until)
        self._busy_until = began + self.latency.each
        return began - now

    def cuts_stream(self) -> bool:
        return self.odds.stream_cut > 0 and self._chance.random() < self.odds.stream_cut


def answer_of(fault: NetworkFault) -> Response | None:
    """Response the client gets; None if it gets none."""
    return _ANSWERS.get(fault)


def _status(code: int, reason: str, message: str) -> bytes:
    head = f'{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}"'
    return f'{head},"reason":"{reason}","code":{code}}}'.encode()


_ANSWERS: Mapping[NetworkFault, Response] = {
    NetworkFault.THROTTLED: Response(
        429, _status(429, "TooManyRequests", "too many requests, please try again later"), retry_after=1.0
    ),
    NetworkFault.BROKEN: Response(500, _status(500, "InternalError", "Internal error occurred: simulated")),
    NetworkFault.UNAVAILABLE: Response(
        503, _status(503, "ServiceUnavailable", "the server is currently unable to handle the request")
    ),
    NetworkFault.CONFLICT: Response(
        409, _status(409, "Conflict", "the object has been modified; please apply your changes to the latest version")
    ),
    NetworkFault.EXPIRED: Response(410, _status(410, "Expired", "too old resource version: 1 (2)")),
}

FAULTS: Sequence[NetworkFault] = tuple(
    fault for fault in NetworkFault if fault not in (NetworkFault.CONFLICT, NetworkFault.EXPIRED)
)
"""Faults that any call can meet."""
