"""`python -m bench.mutants`: mutants of the core against the tests that import it and chaos stories.

Resumable: a result counts as long as the file it is about has not changed. All are in `bench/results/mutants.json`.
"""

import argparse
import hashlib
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
MOST_FILES = 40
"""Test files tried for one mutant."""
KEPT = RESULTS / "mutants.json"


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
        self.product = {_module(str(path.relative_to(ROOT))): imports_of(path.read_text()) for path in modules}


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def main(arguments: Sequence[str]) -> int:
    """Run mutants that have no result yet; returns 1 if more survive than 5 of 100."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="mutants, from the first of the seed's order on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=0, help="end after so many new results; 0: no bound")
    options = parser.parse_args(arguments)
    picked = _chosen(options.count, options.seed)
    imports = _Imports()
    kept, new = _read_kept(), 0
    for number, one in enumerate(picked, 1):
        key = f"{one.name}:{_digest(one.path)}"
        if key in kept:
            continue
        if options.most and new >= options.most:
            break
        verdict, new = _tried(one, imports), new + 1
        kept[key] = {"line": _line(one), "killed_by": verdict.killed_by, "detail": verdict.detail}
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        print(f"[{number}/{len(picked)}] {one.name}: {verdict.killed_by or 'SURVIVED'} {verdict.detail}", flush=True)
    return _summary(picked, kept)


def _summary(picked: Sequence[Mutant], kept: Mapping[str, Any]) -> int:
    known = {one.name: kept[key] for one in picked if (key := f"{one.name}:{_digest(one.path)}") in kept}
    survivors = sorted(name for name, found in known.items() if not found["killed_by"])
    print(f"{len(known)} of {len(picked)} mutants tried, {len(known) - len(survivors)} killed; survivors:")
    for name in survivors:
        print(f"  {name}: {known[name]['line']}")
    return 1 if len(survivors) * 20 > len(known) else 0


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
        shutil.copytree(ROOT / "ullage", tree / "ullage", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("tests", "pyproject.toml", "bench", "docs", "deploy", "examples"):
            if (ROOT / name).exists():
                (tree / name).symlink_to(ROOT / name)
        (tree / mutant.path).write_text(mutant.applied((ROOT / mutant.path).read_text()))
        files = importers(_module(mutant.path), imports.tests, imports.product)[:MOST_FILES]
        return _by_tests(tree, files) or _by_seeds(tree) or Verdict("")


def _by_tests(tree: Path, files: Sequence[str]) -> Verdict | None:
    if not files:
        return None
    command = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not real", *files)
    done = _run(command, tree, CPU_SECONDS * 2 // 3)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return Verdict("tests", failed[0][:200]) if failed else None


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
        os.nice(15)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))

    return bound


def _digest(path: str) -> str:
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:12]


def _line(mutant: Mutant) -> str:
    before = (ROOT / mutant.path).read_text().splitlines()[mutant.line - 1].strip()
    return f"{before}  ->  {mutant.text}"


def _read_kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
