"""Runs side by side: where they part, and what is better or worse."""

from dataclasses import replace

import pytest

from tests.sim.report.sheets import a_sheet
from ullage.sim.report.comparison import ComparedDecision, compared, parting
from ullage.sim.report.text import differences, reasons, summary, waiting

A, B, C = (ComparedDecision(float(n), "scheduler", "Scheduled", f"Pod default/p{n}", f"on node-{n}") for n in range(3))


@pytest.mark.parametrize(
    ("first", "other", "after", "next_first", "next_other"),
    [
        pytest.param([A, B], [A, C], 1, B, C, id="another-decision"),
        pytest.param([A, B], [A], 1, B, None, id="one-ends-sooner"),
        pytest.param([], [A], 0, None, A, id="one-decides-nothing"),
        pytest.param([A], [A._replace(at=9.0)], 0, A, A._replace(at=9.0), id="the-same-later"),
    ],
)
def test_where_runs_part(
    first: list[ComparedDecision],
    other: list[ComparedDecision],
    after: int,
    next_first: ComparedDecision | None,
    next_other: ComparedDecision | None,
) -> None:
    found = parting(first, other)
    assert found is not None
    assert found["after"] == after
    assert found["first"] == (next_first.as_json() if next_first else None)
    assert found["other"] == (next_other.as_json() if next_other else None)


def test_runs_that_never_part() -> None:
    assert parting([A, B], [A, B]) is None
    told = [A._replace(note=f"on node-1: best of 2 that fit, by {policy}") for policy in ("packing", "random/7")]
    assert parting(told[:1], told[1:]) is None, "who chose it does not matter"


def test_better_and_worse() -> None:
    first = a_sheet("first")
    gpus = {"hours": {"waste": 5.0}, "allocation": 0.9}
    other = replace(a_sheet("other", gpus=gpus), settings={"scheduling.policy": "packing"})
    (one,) = compared([first, other], [[A, B], [A, C]])
    assert one["settings"] == {"scheduling.policy": [None, "packing"]}
    judged = {metric["metric"]: metric["better"] for metric in one["metrics"]}
    assert judged == {"GPU allocation": True, "waste": False}
    lines = differences([one])
    assert lines[0] == "other beside first"
    assert "  GPU allocation: 75.00 % -> 90.00 % (+20.0 %), better" in lines
    assert "  waste: 2.5 GPU hours -> 5 GPU hours (+100.0 %), worse" in lines
    assert any("the first 1 decisions are the same" in line for line in lines)


def test_one_run_is_compared_with_nothing() -> None:
    assert compared([a_sheet()], [[A]]) == []


def test_equal_runs_differ_nowhere() -> None:
    (one,) = compared([a_sheet("x"), a_sheet("y")], [[A], [A]])
    assert differences([one]) == ["y beside x", "  every decision is the same", "  no measure differs"]


def test_tables_for_the_terminal() -> None:
    rows = {row[0]: row[1:] for row in summary([a_sheet("one"), a_sheet("two")])}
    assert rows["MEASURE"] == ("one", "two")
    assert rows["GPU allocation"] == ("75.00 %", "75.00 %")
    assert rows["pods evicted"] == ("2", "2")
    assert "pods preempted" not in rows, "the sheet does not have it"
    assert [row[0] for row in waiting(a_sheet())] == ["GPUS", "0", "8", "shared", "all"]
    assert waiting(a_sheet())[1][1:] == ("3", "4 s", "2 s", "10 min", "2 h", "2 h", "1", "0")
    assert [row[0] for row in reasons(a_sheet())] == ["DECISION", "FailedScheduling", "Scheduled"]
