"""Network of one process in a chaos run: faults for a time, a crash at a given call, and a count of what met what."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from ullage.kube.client.transport import Request
from ullage.sim.apiserver.network_faults import Latency, NetworkConditions, NetworkFault
from ullage.sim.chaos.coverage import FaultCoverage, call_site, is_unguarded, verb_of
from ullage.sim.chaos.story import ChaosFault, FaultKind

NETWORK_FAULT_OF = {
    FaultKind.REFUSED: NetworkFault.REFUSED,
    FaultKind.LOST: NetworkFault.LOST,
    FaultKind.THROTTLED: NetworkFault.THROTTLED,
    FaultKind.BROKEN: NetworkFault.BROKEN,
    FaultKind.UNAVAILABLE: NetworkFault.UNAVAILABLE,
    FaultKind.CONFLICT: NetworkFault.CONFLICT,
    FaultKind.EXPIRED: NetworkFault.EXPIRED,
}
_WRITES = ("create", "update", "patch", "delete")
_CHANGES, _STREAMS, _READS = ("update", "patch", "delete"), ("watch",), ("get", "list")
VERBS = (*_WRITES, *_READS, *_STREAMS)
CRASHES = (FaultKind.CRASH_BEFORE_CALL, FaultKind.CRASH_AFTER_CALL, FaultKind.FREEZE_AFTER_CALL)
_OF_SOME = {
    FaultKind.CONFLICT: _CHANGES,
    FaultKind.EXPIRED: _STREAMS,
    FaultKind.STALE_WATCH: _STREAMS,
    FaultKind.CUT_WATCHES: _STREAMS,
    FaultKind.SLOW: (*_WRITES, *_READS),
    **dict.fromkeys(CRASHES, (*_WRITES, *_READS)),
}
"""Faults that only some verbs can meet."""
POSSIBLE: dict[str, tuple[str, ...]] = {
    verb: tuple(
        kind.value
        for kind in dict.fromkeys((*NETWORK_FAULT_OF, *_OF_SOME, FaultKind.PARTITION))
        if verb in _OF_SOME.get(kind, VERBS)
    )
    for verb in VERBS
}
"""Faults that a call can meet, by verb."""


@dataclass(slots=True)
class _Window:
    kind: FaultKind
    rate: float
    only: str
    """Calls that it strikes, as a story names them; empty for any."""
    once: bool
    """True if it ends with its first strike."""


@dataclass(slots=True)
class _CrashAt:
    calls: int
    kind: FaultKind
    only: str
    crash: Callable[[], None]


class ChaosNetwork(NetworkConditions):
    """Network of one process. Windows of faults may overlap; the first that strikes counts."""

    def __init__(self, process: str, seed: int, latency: Latency, coverage: FaultCoverage) -> None:
        super().__init__(seed=seed, latency=latency)
        self._process = process.rstrip("-0123456789")  # replicas call out from the same places
        self._plain = latency
        self._coverage = coverage
        self._draws = random.Random(f"network/{process}/{seed}")
        self._windows: list[_Window] = []
        self._slow: list[float] = []
        self._behind: list[float] = []
        self._crashes: list[_CrashAt] = []
        self._partitions = 0
        self._watches: dict[str, None] = {}

    def begin(self, fault: ChaosFault) -> Callable[[], None]:
        """Begin a fault. The result ends it."""
        match fault.kind:
            case FaultKind.SLOW:
                return self._listed(self._slow, fault.amount)
            case FaultKind.STALE_WATCH:
                self.count_watches(FaultKind.STALE_WATCH)
                return self._listed(self._behind, fault.amount)
            case FaultKind.PARTITION:
                self._partitions += 1
                self.partitioned = True
                return self._reunite
        window = _Window(fault.kind, fault.amount, fault.only, once=fault.at_one_site)
        self._windows.append(window)
        return lambda: self._windows.remove(window) if window in self._windows else None

    def crash_at(self, fault: ChaosFault, crash: Callable[[], None]) -> None:
        """Crash or stop the process at its call with this number from now: before the server gets it, or after it."""
        self._crashes.append(_CrashAt(int(fault.amount), fault.kind, fault.only, crash))

    def count_watches(self, kind: FaultKind) -> None:
        """Count a fault of all watches that the process has opened."""
        for site in self._watches:
            self._coverage.faults[site, kind.value] += 1

    def heal(self) -> None:
        """End every fault."""
        self._windows.clear()
        self._slow.clear()
        self._behind.clear()
        self._crashes.clear()
        self._partitions = 0
        self.partitioned = False
        self.latency = self._plain

    def reaches(self, request: Request) -> bool:
        if self.partitioned:
            self._coverage.faults[call_site(self._process, request), FaultKind.PARTITION.value] += 1
        return not self.partitioned

    def fault(self, request: Request) -> NetworkFault | None:
        site = call_site(self._process, request)
        self._coverage.calls[site] += 1
        if verb_of(site) in _STREAMS:
            self._watches[site] = None
        elif self._slow:
            self._coverage.faults[site, FaultKind.SLOW.value] += 1
        if is_unguarded(request):
            self._coverage.unguarded.append(f"{self._process} deleted {request.path} whichever version it had")
        found = self._crash(site) or self._strike(site)
        return found if found is not None else super().fault(request)

    def _crash(self, site: str) -> NetworkFault | None:
        verb = verb_of(site)
        for one in self._crashes:
            if verb in _STREAMS or not _strikes(one.only, site):
                continue
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
        verb = verb_of(site)
        for window in self._windows:
            if not _strikes(window.only, site):
                continue
            if window.kind.value in POSSIBLE[verb] and self._draws.random() < window.rate:
                if window.once:
                    self._windows.remove(window)
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


def _strikes(only: str, site: str) -> bool:
    """True if `only` names a call site, its verb, or its process and verb."""
    process, verb, _ = site.split(" ")
    return only in ("", verb, f"{process} {verb}", site)
