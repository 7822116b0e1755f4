"""Pieces of a line: a time without values is a gap, and is not drawn over."""

import pytest

from bench.line_chart import unbroken


@pytest.mark.parametrize(
    ("times", "pieces"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([7], [[7]], id="one-point"),
        pytest.param([0, 5, 10], [[0, 5, 10]], id="no-gap"),
        pytest.param([0, 5, 30, 35], [[0, 5], [30, 35]], id="a-gap"),
        pytest.param([0, 20, 25], [[0], [20, 25]], id="a-point-alone"),
    ],
)
def test_a_line_is_broken_where_values_are_missing(times: list[float], pieces: list[list[float]]) -> None:
    found = unbroken([(at, 1.0) for at in times])
    assert [[at for at, _ in piece] for piece in found] == pieces
