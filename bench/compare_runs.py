"""Compare what two trees do in the same simulated worlds: `python -m bench.compare_runs BEFORE [AFTER] [--seeds 200]`.

BEFORE and AFTER are commits; without AFTER it is this tree as it is. Both run `bench/recorded_world.py` of this one;
their recordings are compared line by line. Recordings of a commit are kept, so it runs once. Between two commits each
world is entered in `bench/results/compared_runs.json`, and one that is there is not compared again: an interrupted
comparison goes on. Exit code 1: a world differs.

`--bisect` names for each world that differs the commits between the two (AFTER or HEAD) that brought a difference. A
commit in whose tree the world cannot be run is passed over, and named together with the next one.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial

from bench import runs_ledger
from bench.recordings import TREE, commit_of, git, recordings, run, worlds

CONTEXT = 2
"""Lines shown before the first difference."""

TOGETHER = 10
"""Worlds that one process runs: an interruption costs no more."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare_runs", description=__doc__)
    parser.add_argument("before", help="commit to compare with")
    parser.add_argument("after", nargs="?", help="the other commit; without it, this tree")
    parser.add_argument("--seeds", type=int, default=200, help="number of worlds")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--without-times", action="store_true", help="compare the order of writes and not their times")
    parser.add_argument("--bisect", action="store_true", help="find the commits that brought the differences")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.seeds)
    before = commit_of(options.before)
    if options.bisect:
        return bisected(before, options.after or "HEAD", seeds)
    if options.after is not None:
        return between_commits(before, commit_of(options.after), seeds, without_times=options.without_times)
    return with_this_tree(before, seeds, without_times=options.without_times)


def with_this_tree(before: str, seeds: Sequence[int], *, without_times: bool) -> int:
    different = 0
    for batch in _batches(seeds):
        old, new = recordings(before, batch), run(TREE, batch)
        for seed in batch:
            found = difference(old[seed], new[seed], ignore_times=without_times)
            different += found is not None
            if found is not None:
                print(f"seed {seed} differs\n{found}", flush=True)
        print(f"up to seed {batch[-1]}: {different} differ", flush=True)
    print(f"{len(seeds)} worlds compared with {before[:9]}: {different} differ")
    return 1 if different else 0


def between_commits(before: str, after: str, seeds: Sequence[int], *, without_times: bool) -> int:
    """Compare the worlds that the ledger does not have yet, and enter them."""
    pair = runs_ledger.load(before, after, worlds())
    for batch in _batches(pair.missing(seeds)):
        old, new = recordings(before, batch), recordings(after, batch)
        for seed in batch:
            verdict, found = compared(old[seed], new[seed])
            pair.add(seed, verdict, old[seed])
            if found is not None:
                print(f"seed {seed}: {verdict}\n{found}", flush=True)
        runs_ledger.save(before, after, pair)
        print(f"up to seed {batch[-1]}: {pair.as_json()}", flush=True)
    counted = {verdict: len(pair.seeds[verdict]) for verdict in pair.seeds}
    print(f"{before[:9]} and {after[:9]}: {counted}, with {dict(pair.done)}")
    return 1 if counted[runs_ledger.DIFFERENT] or (counted[runs_ledger.LATER] and not without_times) else 0


def compared(before: Sequence[str], after: Sequence[str]) -> tuple[str, str | None]:
    """How two recordings compare, and the first difference."""
    found = difference(before, after)
    if found is None:
        return runs_ledger.EQUAL, None
    order = difference(before, after, ignore_times=True)
    return (runs_ledger.LATER, found) if order is None else (runs_ledger.DIFFERENT, order)


def _batches(seeds: Sequence[int]) -> list[Sequence[int]]:
    return [seeds[start : start + TOGETHER] for start in range(0, len(seeds), TOGETHER)]


Recording = list[str] | None
"""Lines of a world; None if the tree cannot run it."""


def bisected(before: str, after: str, seeds: Sequence[int]) -> int:
    """Print the commits that brought a difference, with the seeds in which they did. Compared without times."""
    touching = ("ullage", "pyproject.toml")
    history = [before, *git("rev-list", "--reverse", "--first-parent", f"{before}..{after}", "--", *touching).split()]
    found: dict[tuple[str, str], list[int]] = {}
    for seed in seeds:
        recording = cache(partial(_recorded, seed=seed))
        for span in changes(history, recording):
            found.setdefault(span, []).append(seed)
        print(f"seed {seed} done", flush=True)
    for (first, last), where in found.items():
        subjects = git("log", "--reverse", "--format=    %h %s", f"{first}..{last}", "--", *touching).rstrip()
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
    try:
        return _untimed(recordings(commit, [seed])[seed])
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
