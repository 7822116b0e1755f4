"""Compare what two trees do in the same simulated worlds: `python -m bench.compare_runs BEFORE [--seeds 200]`.

BEFORE is a commit. Both trees run `bench/recorded_world.py` of this one; their recordings are compared line by line.
Recordings of a commit are kept (folder `.cache/compare`), so it runs once. Exit code 1: a world differs.

`--bisect` names for each world that differs the commits between BEFORE and HEAD that brought a difference. A commit in
whose tree the world cannot be run is passed over, and named together with the next one.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

TREE = Path(__file__).parent.parent
CACHE = TREE / ".cache" / "compare"
PROBE = Path(__file__).parent / "recorded_world.py"
CONTEXT = 2
"""Lines shown before the first difference."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare_runs", description=__doc__)
    parser.add_argument("before", help="commit to compare this tree with")
    parser.add_argument("--seeds", type=int, default=200, help="number of worlds")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--without-times", action="store_true", help="compare the order of writes and not their times")
    parser.add_argument("--bisect", action="store_true", help="find the commits that brought the differences")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.seeds)
    commit = _git("rev-parse", "--verify", f"{options.before}^{{commit}}").strip()
    if options.bisect:
        return bisected(commit, seeds)
    different = 0
    with _checked_out(commit, seeds) as before:
        for seed in seeds:
            found = difference(_kept(commit, seed, before), _run(TREE, seed), ignore_times=options.without_times)
            different += found is not None
            if found is not None:
                print(f"seed {seed} differs\n{found}", flush=True)
            elif (seed - options.first + 1) % 10 == 0:
                print(f"{seed - options.first + 1} of {options.seeds} worlds, {different} differ", flush=True)
    print(f"{options.seeds} worlds compared with {commit[:9]}: {different} differ")
    return 1 if different else 0


Recording = list[str] | None
"""Lines of a world; None if the tree cannot run it."""


def bisected(before: str, seeds: Sequence[int]) -> int:
    """Print the commits that brought a difference, with the seeds in which they did. Compared without times."""
    touching = ("ullage", "pyproject.toml")
    history = [before, *_git("rev-list", "--reverse", "--first-parent", f"{before}..HEAD", "--", *touching).split()]
    found: dict[tuple[str, str], list[int]] = {}
    for seed in seeds:
        recording = cache(partial(_recorded, seed=seed))
        for span in changes(history, recording):
            found.setdefault(span, []).append(seed)
        print(f"seed {seed} done", flush=True)
    for (first, last), where in found.items():
        subjects = _git("log", "--reverse", "--format=    %h %s", f"{first}..{last}", "--", *touching).rstrip()
        print(f"{len(where)} of {len(seeds)} worlds ({', '.join(map(str, where[:10]))}):\n{subjects}")
    return 1 if found else 0


def changes(history: Sequence[str], recording: Callable[[str], Recording]) -> list[tuple[str, str]]:
    """Commits of a history, each with the next one that can be recorded, whose recordings differ."""
    if len(history) < 2 or recording(history[0]) == recording(history[-1]):
        return []
    centre = len(history) // 2
    between = sorted(range(1, len(history) - 1), key=lambda place: (abs(place - centre), place))
    middle = next((place for place in between if recording(history[place]) is not None), None)
    if middle is None:
        return [(history[0], history[-1])]
    return [*changes(history[: middle + 1], recording), *changes(history[middle:], recording)]


def _recorded(commit: str, seed: int) -> Recording:
    with _checked_out(commit, range(seed, seed + 1)) as tree:
        try:
            return _untimed(_kept(commit, seed, tree))
        except SystemExit:
            return None


def difference(before: Sequence[str], after: Sequence[str], *, ignore_times: bool = False) -> str | None:
    """First line in which two recordings differ, with the lines before it; None if they are equal."""
    if ignore_times:
        before, after = _untimed(before), _untimed(after)
    for number in range(max(len(before), len(after))):
        old = before[number] if number < len(before) else "(nothing more)"
        new = after[number] if number < len(after) else "(nothing more)"
        if old != new:
            shown = [f"    {line}" for line in before[max(0, number - CONTEXT) : number]]
            return "\n".join([*shown, f"  - {old}", f"  + {new}"])
    return None


def _untimed(lines: Sequence[str]) -> list[str]:
    return [line.split(" ", 1)[-1] for line in lines]


def _kept(commit: str, seed: int, tree: Path | None) -> list[str]:
    path = _path(commit, seed)
    if not path.exists():
        if tree is None:
            raise AssertionError(f"seed {seed} was not recorded and its tree is not there")
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = _run(tree, seed)
        path.write_text("\n".join(lines))
    return path.read_text().split("\n")


def _path(commit: str, seed: int) -> Path:
    return CACHE / commit / f"{seed}.txt"


@contextmanager
def _checked_out(commit: str, seeds: range) -> Iterator[Path | None]:
    """Tree of the commit in a folder of its own; None if all its recordings are kept."""
    if all(_path(commit, seed).exists() for seed in seeds):
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        _git("worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _run(tree: Path, seed: int) -> list[str]:
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        (sys.executable, str(PROBE), str(seed)), cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"seed {seed} in {tree}:\n{done.stderr}")
    return done.stdout.splitlines()[1:]


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=TREE, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
