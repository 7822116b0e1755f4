"""`python -m bench.mutants`: mutants of the core against the tests that import it and chaos stories.

Resumable: a result counts as long as the function it is about has not changed. All are in `bench/results/mutants.json`.
A test that fails kills a mutant only if it passes without it. Survivors that were looked at are explained in
`bench/mutants_explained.json`: those are equivalent, and do not count.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.record import RESULTS
from ullage.testing.mutants import Mutant, chosen, compiles, importers, imports_of, mutants_of

ROOT = Path(__file__).parent.parent
FOLDERS = ("ullage/decide", "ullage/act", "ullage/state", "ullage/control")
CPU_SECONDS = 60
"""CPU seconds for one mutant: two thirds for tests, the rest for seeds."""
NEAR_FILES, MOST_FILES = 8, 40
"""Test files tried for one mutant: the nearest first, then the others."""
FALSE_ALARMS = 3
"""Tests that fail without the mutant, too, and are left out for it, at most."""
KEPT = RESULTS / "mutants.json"
EXPLAINED = Path(__file__).parent / "mutants_explained.json"
"""Reasons why a mutant changes nothing that can be seen, by name and digest of its function."""
MOST_EQUIVALENT = 10


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a mutant ended."""

    killed_by: str
    """`tests`, `seeds`, or empty for a survivor."""
    detail: str = ""


class _Imports:
    """Imports of the tests, by file, and of the product, by module."""

    def __init__(self) -> None:
        self.tests = {str(path.relative_to(ROOT)): imports_of(path.read_text()) for path in _test_files()}
        modules = (ROOT / "ullage").rglob("*.py")
        self.slow = _read(ROOT / "tests" / "seconds.json").keys()
        self.product = {_module(str(path.relative_to(ROOT))): imports_of(path.read_text()) for path in modules}


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def main(arguments: Sequence[str]) -> int:
    """Run mutants that have no result yet; returns 1 if more survive than 5 of 100."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="mutants, from the first of the seed's order on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="try survivors once more: tests may have been added")
    parser.add_argument("--most", type=int, default=0, help="end after so many new results; 0: no bound")
    options = parser.parse_args(arguments)
    picked = _chosen(options.count, options.seed)
    imports = _Imports()
    kept, new = _read(KEPT), 0
    explained = _read(EXPLAINED)
    if options.again:
        kept = {key: found for key, found in kept.items() if found["killed_by"]}
    for number, one in enumerate(picked, 1):
        key = _key(one)
        if key in kept or key in explained:
            continue
        if options.most and new >= options.most:
            break
        verdict, new = _tried(one, imports), new + 1
        kept[key] = {"line": _line(one), "killed_by": verdict.killed_by, "detail": verdict.detail}
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        print(f"[{number}/{len(picked)}] {one.name}: {verdict.killed_by or 'SURVIVED'} {verdict.detail}", flush=True)
    return _summary(picked, kept)


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
    """Mutants of a seed that compile; some more are drawn because a few do not."""
    drawn = chosen(_all_mutants(), count + count // 4, seed)
    return [one for one in drawn if compiles(one.applied((ROOT / one.path).read_text()))][:count]


def _all_mutants() -> list[Mutant]:
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return [one for path in paths for one in mutants_of(str(path.relative_to(ROOT)), path.read_text())]


def _test_files() -> list[Path]:
    """Tests without a control plane: those marked `real` are left out by name and by mark."""
    return sorted(path for path in (ROOT / "tests").rglob("test_*.py") if "real" not in path.stem)


def _tried(mutant: Mutant, imports: _Imports) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="ullage-mutant-") as folder:
        tree = Path(folder)
        shutil.copytree(ROOT / "ullage", tree / "ullage")  # with its bytecode, which tells the mutant by its time
        for name in ("tests", "pyproject.toml", "bench", "docs", "deploy", "examples"):
            if (ROOT / name).exists():
                (tree / name).symlink_to(ROOT / name)
        (tree / mutant.path).write_text(mutant.applied((ROOT / mutant.path).read_text()))
        files = importers(_module(mutant.path), imports.tests, imports.product, imports.slow)[:MOST_FILES]
        return _by_tests(tree, mutant, files) or _by_seeds(tree) or Verdict("")


def _by_tests(tree: Path, mutant: Mutant, files: Sequence[str]) -> Verdict | None:
    """Run the nearest tests, then the others, until one fails that passes without the mutant."""
    left, not_counted = CPU_SECONDS * 2 // 3, list[str]()
    for batch in (files[:NEAR_FILES], files[NEAR_FILES:]):
        while batch and left > 0 and len(not_counted) <= FALSE_ALARMS:
            begun = _cpu_of_children()
            failed = _first_failure(tree, [*batch, *(f"--deselect={one}" for one in not_counted)], left)
            left -= int(_cpu_of_children() - begun)
            if failed is None:
                break
            if _passes_without(tree, mutant, failed):
                return Verdict("tests", failed)
            not_counted.append(failed)
    return None


def _first_failure(tree: Path, what: Sequence[str], cpu_seconds: int) -> str | None:
    """Name of the first test that fails."""
    command = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not real", *what)
    done = _run(command, tree, cpu_seconds)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].split(" ", 1)[1].split(" - ")[0].strip() if failed else None


def _passes_without(tree: Path, mutant: Mutant, test: str) -> bool:
    """True if a test passes on the same tree without the mutant."""
    path, source = tree / mutant.path, (ROOT / mutant.path).read_text()
    path.write_text(source)
    try:
        return _first_failure(tree, [test], CPU_SECONDS) is None
    finally:
        path.write_text(mutant.applied(source))


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _by_seeds(tree: Path) -> Verdict | None:
    command = (sys.executable, "-m", "ullage", "chaos", "--fail-fast", "--seeds", "100", "--output", str(tree))
    done = _run(command, tree, CPU_SECONDS // 3)
    failed = [line for line in done.stdout.splitlines() if line.startswith("seed ")]
    return Verdict("seeds", failed[0][:200]) if failed else None


def _run(command: Sequence[str], tree: Path, cpu_seconds: int) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(tree), "PYTHONUNBUFFERED": "1"}
    return subprocess.run(
        command, cwd=tree, env=env, capture_output=True, text=True, preexec_fn=_bounded(cpu_seconds), check=False
    )


def _bounded(cpu_seconds: int) -> Callable[[], None]:
    def bound() -> None:
        os.setpriority(os.PRIO_PROCESS, 0, 15)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))

    return bound


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
