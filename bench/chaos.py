"""`python -m bench.chaos`: chaos seeds that nobody has played yet, with everything they met kept in one ledger.

A run goes on where the last one ended: `--seeds 3000` plays what is missing to 3,000 on this tree, `--for 8h` plays as
long as told. `bench/results/chaos.json` has seeds by tree, violations, and the faults met since the last violation, by
kind and by call site. Exits with 1 if a promise is broken. Cut it off at any time.
"""

import argparse
import gc
import hashlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.record import RESULTS
from ullage.model.duration import parse_duration
from ullage.sim.chaos.aimed import TOO_SELDOM, pairs_too_seldom
from ullage.sim.chaos.coverage import FaultCoverage
from ullage.sim.chaos.generate import generated_story
from ullage.sim.chaos.ledger import ChaosLedger, FailedSeed, pairs_of, seldom_met
from ullage.sim.chaos.run import play
from ullage.sim.chaos.story import write_story

ROOT = Path(__file__).parent.parent
KEPT = RESULTS / "chaos.json"
EXPLAINED = Path(__file__).parent / "chaos_pairs.json"
"""Reasons why a pair of call site and fault is not met often, by pattern."""
STORIES = ROOT / ".cache" / "chaos"
SEEDS = 3000
_AT_ONCE = 16
"""Seeds per process between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Played:
    """Result of one seed, as it comes back from a process of its own."""

    seed: int
    met: FaultCoverage
    cpu_seconds: float
    failed: FailedSeed | None


def main(arguments: Sequence[str]) -> int:
    """Play what is missing; returns 1 if a promise was broken on this tree."""
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds on this tree, those played before included")
    parser.add_argument("--for", dest="lasts", metavar="TIME", help="play for so long instead: 30m, 8h")
    parser.add_argument("--processes", type=int, default=1, help="stories played at once")
    parser.add_argument("--report", action="store_true", help="only print what is kept")
    options = parser.parse_args(arguments)
    ledger = read_ledger(KEPT)
    if not options.report:
        tree = product_tree(ROOT)
        run = ledger.begin(tree)
        goes_on = _until(options.lasts) if options.lasts else lambda: run.seeds < options.seeds
        _play(ledger, options.processes, goes_on, tree)
    print("\n".join(report(ledger, _explained())))
    return 1 if ledger.runs and ledger.runs[-1].failed else 0


def _until(lasts: str) -> Callable[[], bool]:
    deadline = time.monotonic() + parse_duration(lasts)
    return lambda: time.monotonic() < deadline


def _play(ledger: ChaosLedger, processes: int, goes_on: Callable[[], bool], tree: str) -> None:
    with ProcessPoolExecutor(processes, initializer=gc.freeze) as pool:  # what is imported is never garbage
        while goes_on():
            first = ledger.next_seed
            for one in pool.map(play_seed, range(first, first + _AT_ONCE * processes)):
                ledger.add(one.met, one.cpu_seconds, one.failed)
                if one.failed is not None:
                    print(f"seed {one.seed}: {one.failed.rule}: {one.failed.sentence}", flush=True)
                    print(f"  again: ullage chaos --first {one.seed} --seeds 1", flush=True)
            if product_tree(ROOT) != tree:
                sys.exit("the tree has changed meanwhile: these last seeds are of no tree, and are not kept")
            write_ledger(ledger, KEPT)


def play_seed(seed: int) -> Played:
    """Play one seed. The story of one that fails is written down."""
    before = time.process_time()
    result = play(generated_story(seed))
    failure, failed = result.failure, None
    if failure is not None:
        failed = FailedSeed(seed=seed, rule=failure.rule, sentence=failure.sentence)
        STORIES.mkdir(parents=True, exist_ok=True)
        (STORIES / f"chaos-{seed}.json").write_bytes(write_story(result.story, failure.sentence))
    return Played(seed, result.coverage, time.process_time() - before, failed)


def report(ledger: ChaosLedger, explained: Mapping[str, str]) -> Iterator[str]:
    """Lines for people: seeds by tree, faults by kind, and pairs that are seldom met."""
    tally = ledger.since_violation
    for run in itertools.islice(reversed(ledger.runs), 5):
        cost = run.cpu_seconds / max(1, run.seeds)
        done = f"{run.seeds} seeds, {run.faults} faults, {len(run.failed)} failed"
        yield f"tree {run.tree}: {done}, {cost:.1f} CPU s each"
        yield from (f"  seed {one.seed}: {one.rule}: {one.sentence}" for one in run.failed)
    yield f"{tally.seeds} seeds since the last violation, {sum(tally.injected.values())} faults:"
    for kind, count in sorted(tally.injected.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {count:7}  {kind}"
    seldom = list(seldom_met(tally, explained))
    unexplained = [(pair, count) for pair, count, why in seldom if not why]
    pairs = pairs_of(tally)
    yield f"{pairs - len(seldom)} of {pairs} pairs of call site and fault met at least 20 times,"
    yield f"{len(seldom) - len(unexplained)} are explained, {len(unexplained)} are not:"
    yield from (f"  {count:3}  {pair}" for pair, count in unexplained)


def product_tree(root: Path) -> str:
    """Digest of the product's source."""
    digest = hashlib.sha256()
    for path in sorted((root / "ullage").rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def read_ledger(path: Path) -> ChaosLedger:
    """Ledger of a file; an empty one if there is none."""
    return msgspec.json.decode(path.read_bytes(), type=ChaosLedger) if path.exists() else ChaosLedger()


def write_ledger(ledger: ChaosLedger, path: Path) -> None:
    """Write a ledger whole: a run that is cut off leaves the one before."""
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(ledger), indent=1) + b"\n")
    os.replace(beside, path)


def _explained() -> dict[str, str]:
    found: dict[str, str] = json.loads(EXPLAINED.read_text()) if EXPLAINED.exists() else {}
    return found | dict.fromkeys(pairs_too_seldom(), TOO_SELDOM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
