"""Order of test files in a run of several processes."""

import json
from pathlib import Path

import pytest

from ullage.testing.order import KEPT, FileCost, cost, ordered

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("files", "order"),
    [
        pytest.param([], [], id="none"),
        pytest.param([("a", 1, False), ("b", 9, False)], ["b", "a"], id="longest first"),
        pytest.param([("b", 1, False), ("a", 1, False)], ["a", "b"], id="equal ones by name"),
        pytest.param(
            [("c1", 2, False), ("c2", 2, False), ("w1", 30, True), ("w2", 20, True), ("w3", 10, True)],
            ["w1", "c1", "w2", "c2", "w3"],
            id="files that wait beside files that compute until the end",
        ),
        pytest.param([("c", 50, False), ("w", 1, True)], ["w", "c"], id="one that waits begins"),
    ],
)
def test_order(files: list[tuple[str, float, bool]], order: list[str]) -> None:
    assert ordered(FileCost(*one) for one in files) == order


@pytest.mark.parametrize(
    ("real", "kept", "expected"),
    [
        pytest.param([False] * 5, {}, FileCost("f", 0.5, waits=False), id="guess from the number of tests"),
        pytest.param([True, False], {}, FileCost("f", 10.1, waits=True), id="tests on the real control plane are long"),
        pytest.param([True], {"f": 92}, FileCost("f", 92, waits=True), id="what was measured counts"),
    ],
)
def test_cost_of_a_file(real: list[bool], kept: dict[str, float], expected: FileCost) -> None:
    assert cost("f", real, kept) == expected


def test_kept_seconds_are_of_files_that_are_there() -> None:
    kept = json.loads((TESTS / KEPT).read_text())
    assert [path for path in kept if not (TESTS.parent / path).exists()] == []
