"""Ledger of chaos runs: what was played on which tree, and what the seeds since the last violation have met. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

import msgspec

from ullage.sim.chaos.coverage import FaultCoverage, verb_of
from ullage.sim.chaos.network import POSSIBLE

LEAST_HITS = 20
"""Times that each pair of call site and fault has to be met."""


class FailedSeed(msgspec.Struct, kw_only=True):
    """A seed whose story broke a promise."""

    seed: int
    rule: str
    sentence: str


class TreeRun(msgspec.Struct, kw_only=True):
    """Seeds that were played on one tree of the product."""

    tree: str
    first: int
    seeds: int = 0
    faults: int = 0
    cpu_seconds: float = 0.0
    failed: list[FailedSeed] = []


class FaultTally(msgspec.Struct, kw_only=True):
    """Seeds since the last violation was fixed, and the faults they met."""

    seeds: int = 0
    injected: dict[str, int] = {}
    """Faults by kind."""
    calls: dict[str, int] = {}
    """Calls by call site."""
    met: dict[str, dict[str, int]] = {}
    """Faults by call site and kind."""

    def add(self, met: FaultCoverage) -> None:
        """Count one more seed."""
        self.seeds += 1
        self.injected = _sum(self.injected, met.injected)
        self.calls = _sum(self.calls, met.calls)
        for (site, kind), count in met.faults.items():
            kinds = self.met.setdefault(site, {})
            kinds[kind] = kinds.get(kind, 0) + count


class ChaosLedger(msgspec.Struct, kw_only=True):
    """Everything that is kept of chaos runs. Seeds are never played twice: each run goes on after the last one."""

    runs: list[TreeRun] = []
    since_violation: FaultTally = msgspec.field(default_factory=FaultTally)

    def begin(self, tree: str) -> TreeRun:
        """Run on this tree: the latest goes on. On a new tree after a violation, counting begins anew."""
        if self.runs and self.runs[-1].tree == tree:
            return self.runs[-1]
        if self.runs and self.runs[-1].failed:
            self.since_violation = FaultTally()
        self.runs.append(TreeRun(tree=tree, first=self.next_seed))
        return self.runs[-1]

    @property
    def next_seed(self) -> int:
        """First seed that was not played yet."""
        return self.runs[-1].first + self.runs[-1].seeds if self.runs else 0

    def add(self, met: FaultCoverage, cpu_seconds: float, failed: FailedSeed | None) -> None:
        """Note the result of the next seed."""
        run = self.runs[-1]
        run.seeds += 1
        run.faults += sum(met.injected.values())
        run.cpu_seconds = round(run.cpu_seconds + cpu_seconds, 1)
        if failed is not None:
            run.failed.append(failed)
        if run.failed:
            self.since_violation = FaultTally()
        else:
            self.since_violation.add(met)


def _sum(before: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted((Counter(before) + Counter(more)).items()))


def seldom_met(
    tally: FaultTally, explained: Mapping[str, str], least: int = LEAST_HITS
) -> Iterator[tuple[str, int, str]]:
    """Pairs of call site and fault that met fewer than `least` times, with the reason that explains each, or none.

    `explained` has reasons by pattern: `controller watch *: 410`.
    """
    for site in sorted(tally.calls):
        for kind in POSSIBLE.get(verb_of(site), ()):
            found, pair = tally.met.get(site, {}).get(kind, 0), f"{site}: {kind}"
            if found < least:
                yield pair, found, next((why for key, why in explained.items() if fnmatchcase(pair, key)), "")


def pairs_of(tally: FaultTally) -> int:
    """Number of pairs of call site and fault that can meet."""
    return sum(len(POSSIBLE.get(verb_of(site), ())) for site in tally.calls)
