"""The ledger of compared worlds: what is entered is not compared again, and other worlds begin anew."""

from pathlib import Path

import pytest

from bench import runs_ledger
from bench.recordings import by_seed
from bench.runs_ledger import DIFFERENT, EQUAL, LATER, ComparedPair, from_ranges, happened, in_ranges

BEFORE, AFTER = "a" * 40, "b" * 40
PLACED = "1.000 scheduler pods default/a (None, (None, None), False) -> ('gpu-0', ('gpu-0:0', 'GPU-gpu-0-0'), False)"
MADE = "0.000 cloud nodes /gpu-0 None -> []"
BOUGHT = "2.000 cloud nodes /drained-0000 None -> []"
REMOVED = "3.000 controller nodes /drained-0000 ['gpu.scheduling/draining'] -> None"


@pytest.mark.parametrize(
    ("seeds", "written"),
    [
        pytest.param([], "", id="none"),
        pytest.param([7], "7", id="one"),
        pytest.param([0, 1, 2, 4, 6, 7], "0-2, 4, 6-7", id="with-gaps"),
    ],
)
def test_seeds_are_written_as_ranges(seeds: list[int], written: str) -> None:
    assert in_ranges(seeds) == written
    assert from_ranges(written) == seeds


def test_a_comparison_goes_on_where_it_was(tmp_path: Path) -> None:
    ledger = tmp_path / "compared_runs.json"
    pair = runs_ledger.load(BEFORE, AFTER, "worlds", ledger)
    for seed, verdict in ((0, EQUAL), (1, DIFFERENT), (3, LATER)):
        pair.add(seed, verdict, [PLACED, BOUGHT])
    runs_ledger.save(BEFORE, AFTER, pair, ledger)
    runs_ledger.save(AFTER, BEFORE, ComparedPair("worlds"), ledger)

    again = runs_ledger.load(BEFORE, AFTER, "worlds", ledger)
    assert again == pair
    assert again.missing(range(5)) == [2, 4]


def test_other_worlds_begin_anew(tmp_path: Path) -> None:
    ledger = tmp_path / "compared_runs.json"
    pair = ComparedPair("worlds")
    pair.add(0, EQUAL, [])
    runs_ledger.save(BEFORE, AFTER, pair, ledger)
    assert runs_ledger.load(BEFORE, AFTER, "others", ledger).missing(range(2)) == [0, 1]


def test_placements_purchases_and_removals_are_counted() -> None:
    assert happened([MADE, PLACED, PLACED, BOUGHT, REMOVED]) == {"placements": 2, "purchases": 1, "removals": 1}


def test_worlds_of_one_process_are_told_apart() -> None:
    assert by_seed(f"# seed 4 abc\n{PLACED}\n{MADE}\n# seed 9 def\n") == {4: [PLACED, MADE], 9: []}
