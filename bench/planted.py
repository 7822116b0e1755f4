"""`python -m bench.planted`: seeds against each planted bug, with nobody telling them where to look.

A bug is found when one of the first 200 seeds breaks a promise that its patch names, and keeps it without the bug.
Resumable: a result counts for the tree and the patch it is from. All are in `bench/results/planted.json`. Exits with 1
if a bug is not found.
"""

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.chaos import product_tree
from bench.record import RESULTS
from ullage.sim.chaos.generate import generated_story
from ullage.sim.chaos.run import play
from ullage.testing.planted_bugs import BugFound, PlantedBug, planted_bugs, planted_tree, search

ROOT = Path(__file__).parent.parent
PATCHES = ROOT / "tests" / "sim" / "chaos" / "planted"
KEPT = RESULTS / "planted.json"
SEEDS = 200


def main(arguments: Sequence[str]) -> int:
    """Search for the bugs that have no result on this tree; returns 1 if one is not found."""
    bugs = planted_bugs(PATCHES)
    parser = argparse.ArgumentParser(prog="python -m bench.planted", description=__doc__)
    parser.add_argument("names", nargs="*", help="bugs; all by default")
    parser.add_argument("--processes", type=int, default=1, help="stories played at once")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - {bug.name for bug in bugs}):
        parser.error(f"no planted bug called {', '.join(unknown)}; there are: {', '.join(bug.name for bug in bugs)}")
    kept: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    tree, wanted = product_tree(ROOT), [bug for bug in bugs if not options.names or bug.name in options.names]
    for bug in wanted:
        if not _counts(kept.get(bug.name), bug, tree):
            kept[bug.name] = _searched(bug, tree, options.processes)
            KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        print(_line(bug, kept[bug.name]), flush=True)
    return 0 if all(kept[bug.name]["found"] for bug in wanted) else 1


def _counts(result: Mapping[str, Any] | None, bug: PlantedBug, tree: str) -> bool:
    return result is not None and (result["tree"], result["patch"]) == (tree, _digest(bug))


def _searched(bug: PlantedBug, tree: str, processes: int) -> dict[str, Any]:
    began, first, found = time.monotonic(), 0, None
    with planted_tree(bug, ROOT) as copy:
        while first < SEEDS:
            found = search(copy, first=first, seeds=SEEDS - first, processes=processes)
            if found is None or not _fails_anyway(found):
                break
            first, found = found.seed + 1, None
    return {
        "tree": tree,
        "patch": _digest(bug),
        "found": found is not None and found.rule in bug.breaks,
        "seed": None if found is None else found.seed,
        "rule": None if found is None else found.rule,
        "sentence": None if found is None else found.sentence,
        "seconds": round(time.monotonic() - began, 1),
    }


def _fails_anyway(found: BugFound) -> bool:
    """True if a seed breaks the same promise without the bug: that says nothing about the bug."""
    failure = play(generated_story(found.seed)).failure
    return failure is not None and failure.rule == found.rule


def _line(bug: PlantedBug, result: Mapping[str, Any]) -> str:
    if result["seed"] is None:
        return f"{bug.name}: NOT FOUND by {SEEDS} seeds"
    how = "found" if result["found"] else "NOT FOUND: another promise broke"
    return f"{bug.name}: {how}, seed {result['seed']}: {result['rule']}"


def _digest(bug: PlantedBug) -> str:
    return hashlib.sha256(bug.path.read_bytes()).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
