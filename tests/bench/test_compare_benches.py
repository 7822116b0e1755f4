"""The comparison of a benchmark in two trees: figures are read as they are printed, and medians are compared."""

from bench.compare_benches import compared, figures_of
from bench.record import Figure


def test_figures_are_read_as_they_are_printed() -> None:
    plain = Figure("pods of 20 shapes, 5,000 nodes", "pods/s", 12_345.678, 9_000.0, "promised", more_is_better=True)
    without_unit = Figure("growth from 5,000 pods, as a power", "", 1.02, 1.1, "at most", 1.0)
    output = "\n".join(["== decisions: words", "   20 shapes on 5,000 nodes", plain.line(), without_unit.line(), ""])
    assert figures_of(output) == {
        "pods of 20 shapes, 5,000 nodes (pods/s)": 12_345.68,
        "growth from 5,000 pods, as a power ()": 1.02,
    }


def test_medians_of_figures_that_both_trees_have_are_compared() -> None:
    before = [{"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 1.0}, {"a": 9.0, "b": 1.0}]
    after = [{"a": 3.0}, {"a": 1.0}, {"a": 2.5}]
    (line,) = compared(before, after)
    assert line.split() == ["a", "before", "2.00", "now", "2.50", "1.250x"]
