"""Network of one process in a chaos run: faults for a time, a crash at a given call, and a count of what met what."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from ullage.kube.client.transport import Request
from ullage.sim.apiserver.network_faults import Latency, NetworkConditions, NetworkFault
from ullage.sim.chaos.coverage import FaultCoverage, call_site, is_unguarded
from ullage.sim.chaos.story import FaultKind

NETWORK_FAULT_OF = {
    FaultKind.REFUSED: NetworkFault.REFUSED,
    FaultKind.LOST: NetworkFault.LOST,
    FaultKind.THROTTLED: NetworkFault.THROTTLED,
    FaultKind.BROKEN: NetworkFault.BROKEN,
    FaultKind.UNAVAILABLE: NetworkFault.UNAVAILABLE,
    FaultKind.CONFLICT: NetworkFault.CONFLICT,
    FaultKind.EXPIRED: NetworkFault.EXPIRED,
}
_CHANGES, _STREAMS = ("update", "patch", "delete"), ("watch",)
POSSIBLE: dict[str, tuple[str, ...]] = {
    verb: tuple(
        kind.value
        for kind in NETWORK_FAULT_OF
        if (kind is not FaultKind.CONFLICT or verb in _CHANGES) and (kind is not FaultKind.EXPIRED or verb in _STREAMS)
    )
    for verb in ("create", "update", "patch", "delete", "get", "list", "watch")
}
"""Faults that a call can meet, by verb."""


@dataclass(slots=True)
class _Window:
    kind: FaultKind
    rate: float


@dataclass(slots=True)
class _CrashAt:
    calls: int
    kind: FaultKind
    crash: Callable[[], None]


class ChaosNetwork(NetworkConditions):
    """Network of one process. Windows of faults may overlap; the first that strikes counts."""

    def __init__(self, process: str, seed: int, latency: Latency, coverage: FaultCoverage) -> None:
        super().__init__(seed=seed, latency=latency)
        self._process = process
        self._plain = latency
        self._coverage = coverage
        self._draws = random.Random(f"network/{process}/{seed}")
        self._windows: list[_Window] = []
        self._slow: list[float] = []
        self._behind: list[float] = []
        self._crashes: list[_CrashAt] = []
        self._partitions = 0

    def begin(self, kind: FaultKind, amount: float) -> Callable[[], None]:
        """Begin a fault. The result ends it."""
        match kind:
            case FaultKind.SLOW:
                return self._listed(self._slow, amount)
            case FaultKind.STALE_WATCH:
                return self._listed(self._behind, amount)
            case FaultKind.PARTITION:
                self._partitions += 1
                self.partitioned = True
                return self._reunite
        window = _Window(kind, amount)
        self._windows.append(window)
        return lambda: self._windows.remove(window)

    def crash_at(self, kind: FaultKind, calls: int, crash: Callable[[], None]) -> None:
        """Crash or stop the process at its call with this number from now: before the server gets it, or after it."""
        self._crashes.append(_CrashAt(calls, kind, crash))

    def heal(self) -> None:
        """End every fault."""
        self._windows.clear()
        self._slow.clear()
        self._behind.clear()
        self._crashes.clear()
        self._partitions = 0
        self.partitioned = False
        self.latency = self._plain

    def fault(self, request: Request) -> NetworkFault | None:
        site = call_site(self._process, request)
        self._coverage.calls[site] += 1
        if is_unguarded(request):
            self._coverage.unguarded.append(f"{self._process} deleted {request.path} whichever version it had")
        found = self._crash(site) or self._strike(site)
        return found if found is not None else super().fault(request)

    def _crash(self, site: str) -> NetworkFault | None:
        for one in self._crashes:
            one.calls -= 1
            if one.calls <= 0:
                self._crashes.remove(one)
                self._coverage.faults[site, one.kind.value] += 1
                # Before the caller's next step: what it would do with the answer never happens.
                asyncio.get_running_loop().call_soon(one.crash)
                if one.kind is FaultKind.FREEZE_AFTER_CALL:
                    return None  # the answer waits until the process goes on
                return NetworkFault.REFUSED if one.kind is FaultKind.CRASH_BEFORE_CALL else NetworkFault.LOST
        return None

    def _strike(self, site: str) -> NetworkFault | None:
        verb = site.split(" ")[1]
        for window in self._windows:
            if window.kind.value in POSSIBLE[verb] and self._draws.random() < window.rate:
                self._coverage.faults[site, window.kind.value] += 1
                return NETWORK_FAULT_OF[window.kind]
        return None

    def _listed(self, values: list[float], amount: float) -> Callable[[], None]:
        values.append(amount)
        self._set_latency()

        def end() -> None:
            if amount in values:
                values.remove(amount)
            self._set_latency()

        return end

    def _set_latency(self) -> None:
        watch = max([self._plain.watch, *self._behind])
        self.latency = replace(self._plain, default=max([self._plain.default, *self._slow]), watch=watch)

    def _reunite(self) -> None:
        self._partitions = max(0, self._partitions - 1)
        self.partitioned = self._partitions > 0
