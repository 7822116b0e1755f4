"""Ledger of the worlds that were compared in the trees of two commits: `bench/results/compared_runs.json`.

A world counts for its pair of commits and for the worlds that `bench/recorded_world.py` makes: after another file of
worlds the pair begins anew. Seeds stand as ranges ("0-199"), so that one line says how far the comparison is.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LEDGER = Path(__file__).parent / "results" / "compared_runs.json"
EQUAL = "equal"
LATER = "equal without times"
DIFFERENT = "different"

_DONE = {
    "placements": re.compile(r" pods \S+ \(None, .* -> \('"),
    "purchases": re.compile(r" cloud nodes /(?:emptied|drained)-\S+ None -> "),
    "removals": re.compile(r" nodes \S+ .* -> None$"),
}
"""What a line of a recording is, by its form."""


@dataclass
class ComparedPair:
    """Worlds compared between two commits: how each came out, and what happened in them before."""

    worlds: str
    seeds: dict[str, list[int]] = field(default_factory=lambda: {EQUAL: [], LATER: [], DIFFERENT: []})
    done: Counter[str] = field(default_factory=Counter)

    def add(self, seed: int, verdict: str, recording: Sequence[str]) -> None:
        self.seeds[verdict] = sorted({*self.seeds[verdict], seed})
        self.done.update(happened(recording))

    def missing(self, seeds: Iterable[int]) -> list[int]:
        compared = {seed for group in self.seeds.values() for seed in group}
        return [seed for seed in seeds if seed not in compared]

    def as_json(self) -> dict[str, Any]:
        return {"worlds": self.worlds, **{name: in_ranges(seeds) for name, seeds in self.seeds.items()}, **self.done}

    @staticmethod
    def from_json(found: dict[str, Any]) -> "ComparedPair":
        pair = ComparedPair(found["worlds"])
        pair.seeds = {name: from_ranges(found[name]) for name in pair.seeds}
        pair.done = Counter({name: found.get(name, 0) for name in _DONE})
        return pair


def happened(recording: Sequence[str]) -> Counter[str]:
    """Placements, purchases and removals of a recording."""
    return Counter(name for line in recording for name, form in _DONE.items() if form.search(line))


def load(before: str, after: str, worlds: str, ledger: Path = LEDGER) -> ComparedPair:
    """What was compared so far between two commits in these worlds."""
    kept = _read(ledger).get(_name(before, after))
    return ComparedPair.from_json(kept) if kept is not None and kept["worlds"] == worlds else ComparedPair(worlds)


def save(before: str, after: str, pair: ComparedPair, ledger: Path = LEDGER) -> None:
    pairs = _read(ledger) | {_name(before, after): pair.as_json()}
    ledger.write_text(json.dumps(pairs, indent=2) + "\n")


def in_ranges(seeds: Sequence[int]) -> str:
    """Sorted seeds as "0-35, 40"."""
    ranges: list[tuple[int, int]] = []
    for seed in seeds:
        if ranges and ranges[-1][1] == seed - 1:
            ranges[-1] = (ranges[-1][0], seed)
        else:
            ranges.append((seed, seed))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def from_ranges(written: str) -> list[int]:
    seeds: list[int] = []
    for part in written.split(", ") if written else ():
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    return seeds


def _read(ledger: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ledger.read_text()) if ledger.exists() else {}
    return found


def _name(before: str, after: str) -> str:
    return f"{before[:7]}..{after[:7]}"
