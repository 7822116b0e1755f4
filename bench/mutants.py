"""`python -m bench.mutants`: mutants of the core against the tests that execute them and chaos stories.

Resumable: a result counts as long as the function it is about has not changed. All are in `bench/results/mutants.json`.
A test that fails kills a mutant only if it passes without it. Survivors that were looked at are explained in
`bench/mutants_explained.json`: those are equivalent, and do not count.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from bench.mutant_trial import Trials, Verdict
from bench.record import RESULTS
from ullage.testing.mutants import Mutant, chosen, importers, imports_of, mutants_of
from ullage.testing.mutated_code import changes_code

ROOT = Path(__file__).parent.parent
FOLDERS = ("ullage/decide", "ullage/act", "ullage/state", "ullage/control")
NEAR_FILES, MOST_FILES = 12, 60
"""Files of tests tried for one mutant, the nearest first."""
SLOW_SECONDS = 30
"""A file that takes so long is left out: one mutant would use all its time."""
_ELSEWHERE = ("bench", "contract", "deploy", "examples", "sim/demo", "sim/experiment", "testing", "web")
"""Folders of tests left out: they start programs, where no mutant is, wait in real time, or test something else."""
KEPT = RESULTS / "mutants.json"
EXPLAINED = Path(__file__).parent / "mutants_explained.json"
"""Reasons why a mutant changes nothing that can be seen, by name and digest of its function."""
MOST_EQUIVALENT = 10


class _Imports:
    """Imports of the tests, by file, and of the product, by module."""

    def __init__(self) -> None:
        seconds = _read(ROOT / "tests" / "seconds.json")
        own = {_module(str(path.relative_to(ROOT))): imports_of(path.read_text()) for path in _modules("tests")}
        files = [str(path.relative_to(ROOT)) for path in _test_files()]
        self.tests = {name: _with_stages(_module(name), own) for name in files if seconds.get(name, 0) < SLOW_SECONDS}
        self.slow = seconds.keys()
        self.product = {
            _module(str(path.relative_to(ROOT))): imports_of(path.read_text()) for path in _modules("ullage")
        }

    def files(self, mutant: Mutant) -> list[str]:
        """Files of tests that may execute a mutant, the nearest first."""
        return importers(_module(mutant.path), self.tests, self.product, self.slow)


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _modules(folder: str) -> Iterator[Path]:
    return (ROOT / folder).rglob("*.py")


def _with_stages(module: str, own: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Imports of a test, with those of the stages and fixtures that it imports."""
    found, left = set[str](), [module]
    while left:
        more = own.get(left.pop(), frozenset()) - found
        found |= more
        left += more
    return frozenset(found)


def main(arguments: Sequence[str]) -> int:
    """Run mutants that have no result yet; returns 1 if more survive than 5 of 100."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="mutants, from the first of the seed's order on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="try survivors once more: tests may have been added")
    parser.add_argument(
        "--quick", action="store_true", help="nearest tests and no seeds: for a first look; then --again"
    )
    parser.add_argument("--only", default="", help="try only mutants whose names hold this")
    parser.add_argument("--most", type=int, default=0, help="end after so many new results; 0: no bound")
    options = parser.parse_args(arguments)
    picked, explained = _chosen(options.count, options.seed), _read(EXPLAINED)
    kept = {key: found for key, found in _read(KEPT).items() if found["killed_by"] or not options.again}
    pending = [
        one for one in picked if _key(one) not in kept and _key(one) not in explained and options.only in one.name
    ]
    if pending:
        _try(pending[: options.most or None], picked, kept, quick=options.quick)
    return _summary(picked, kept)


def _try(pending: Sequence[Mutant], picked: Sequence[Mutant], kept: dict[str, Any], *, quick: bool) -> None:
    imports = _Imports()
    files = {one.name: imports.files(one)[: NEAR_FILES if quick else MOST_FILES] for one in pending}
    trials = Trials(pending, files, picked, quick=quick)

    def noted(one: Mutant, verdict: Verdict) -> None:
        found = {"line": _line(one), "killed_by": verdict.killed_by, "detail": verdict.detail}
        kept[_key(one)] = found | {"seconds": round(verdict.seconds, 1)}
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        print(f"{one.name}: {verdict.killed_by or 'SURVIVED'} {verdict.detail} ({verdict.seconds:.1f} s)", flush=True)

    trials.verdict = noted
    # Tests run in children of this process, so nothing may be captured, and no file of a cache be written.
    options = ("-s", "-p", "no:cacheprovider", "--tb=no", "-m", "not real", "--timeout", "60")
    pytest.main([*options, *sorted({file for some in files.values() for file in some})], plugins=[trials])


def _summary(picked: Sequence[Mutant], kept: Mapping[str, Any]) -> int:
    explained = _read(EXPLAINED)
    equivalent = [one for one in picked if _key(one) in explained]
    known = [one for one in picked if _key(one) in kept and _key(one) not in explained]
    survivors = sorted((one for one in known if not kept[_key(one)]["killed_by"]), key=_key)
    print(f"{len(known) + len(equivalent)} of {len(picked)} mutants tried: {len(equivalent)} are equivalent,")
    print(f"{len(known) - len(survivors)} of the {len(known)} others were killed; survivors:")
    for one in survivors:
        print(f"  {_key(one)} (line {one.line}): {_line(one)}")
    return 1 if len(survivors) * 20 > len(known) or len(equivalent) > MOST_EQUIVALENT else 0


def _chosen(count: int, seed: int) -> list[Mutant]:
    """Mutants of a seed that change the code of a function."""
    every = _all_mutants()
    texts, drawn = (
        {path: (ROOT / path).read_text() for path in {one.path for one in every}},
        chosen(every, len(every), seed),
    )
    return list(islice((one for one in drawn if changes_code(one, texts[one.path])), count))


def _all_mutants() -> list[Mutant]:
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return [one for path in paths for one in mutants_of(str(path.relative_to(ROOT)), path.read_text())]


def _test_files() -> list[Path]:
    """Tests without a control plane: those marked `real` are left out by name and by mark."""
    left_out = tuple(ROOT / "tests" / folder for folder in _ELSEWHERE)
    every = (path for path in (ROOT / "tests").rglob("test_*.py") if "real" not in path.stem)
    return sorted(path for path in every if not any(path.is_relative_to(folder) for folder in left_out))


def _key(mutant: Mutant) -> str:
    return f"{mutant.name}:{mutant.digest}"


def _line(mutant: Mutant) -> str:
    before = (ROOT / mutant.path).read_text().splitlines()[mutant.line - 1].strip()
    return f"{before}  ->  {mutant.text}"


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
