"""Compare a benchmark in two trees: `python -m bench.compare_benches BEFORE decisions [--runs 5] [--scale 0.2]`.

BEFORE is a folder with another checked-out tree. Both trees run their own `bench.run` in turn, so that what slows the
machine slows both. Compared is the CPU time of the whole run with its children, and each figure that both print: the
median of all runs. Exit code 1: more CPU than `--most` allows.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

TREE = Path(__file__).parent.parent
CPU = "CPU of the run"
_FIGURE = re.compile(r"^(?P<name>\S.*?) {2,}(?P<value>[\d,]+\.\d+) (?P<unit>\S*)")

Figures = dict[str, float]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare_benches", description=__doc__)
    parser.add_argument("before", type=Path, help="folder of the other tree")
    parser.add_argument("name", help="benchmark that both trees have")
    parser.add_argument("--runs", type=int, default=5, help="runs of each tree")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full size")
    parser.add_argument("--most", type=float, default=1.05, help="CPU of this tree that is allowed, as a multiple")
    options = parser.parse_args(arguments)
    if not (options.before / "bench" / "run.py").exists():
        parser.error(f"{options.before} is no checked-out tree with a bench folder")
    trees = {"before": options.before.resolve(), "now": TREE}
    measured: dict[str, list[Figures]] = {side: [] for side in trees}
    for number in range(options.runs):
        for side, tree in trees.items() if number % 2 == 0 else reversed(trees.items()):
            figures = run(tree, options.name, options.scale)
            measured[side].append(figures)
            print(f"run {number + 1}, {side}: {figures[CPU]:.2f} CPU s", flush=True)
    for line in compared(measured["before"], measured["now"]):
        print(line)
    ratio = median(one[CPU] for one in measured["now"]) / median(one[CPU] for one in measured["before"])
    print(f"{options.name}: {ratio:.3f} times the CPU, at most {options.most:g}: {_held(ratio <= options.most)}")
    return 0 if ratio <= options.most else 1


def _held(holds: bool) -> str:
    return "holds" if holds else "BROKEN"


def run(tree: Path, name: str, scale: float) -> Figures:
    """Figures of one run. A broken promise of the benchmark is no error here."""
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    command = (sys.executable, "-m", "bench.run", name, "--scale", str(scale))
    before = _spent()
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    figures = {CPU: _spent() - before} | figures_of(done.stdout)
    if len(figures) == 1:
        raise SystemExit(f"{' '.join(command)} in {tree} printed no figure:\n{done.stdout}{done.stderr}")
    return figures


def figures_of(output: str) -> Figures:
    """Figures that a run printed, by name and unit."""
    found = (_FIGURE.match(line) for line in output.splitlines())
    return {f"{one['name']} ({one['unit']})": float(one["value"].replace(",", "")) for one in found if one is not None}


def compared(before: Sequence[Figures], after: Sequence[Figures]) -> list[str]:
    """One line per figure that both have: the medians and their ratio."""
    lines = []
    for name in before[0]:
        if all(name in run for run in (*before, *after)):
            old, new = median(run[name] for run in before), median(run[name] for run in after)
            ratio = f"{new / old:.3f}x" if old else "-"
            lines.append(f"{name:<60} before {old:>12,.2f}   now {new:>12,.2f}   {ratio}")
    return lines


def _spent() -> float:
    """CPU seconds of children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
