"""The score sheet and its curves, without a world."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.model.provisioner import MICROS
from ullage.sim.world.scores import ScoreSheet, report_bytes
from ullage.sim.world.series import FIRST_WIDTH, MOST_POINTS, Series
from ullage.sim.world.waits import PodWait, percentile, row, table


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [
        ([], 50, 0.0),
        ([7.0], 99, 7.0),
        ([1.0, 2.0], 50, 1.0),
        ([1.0, 2.0, 3.0, 4.0], 90, 4.0),
        ([float(n) for n in range(1, 101)], 99, 99.0),
    ],
    ids=["none", "one", "half of two", "few", "a hundred"],
)
def test_percentiles(values: list[float], part: int, expected: float) -> None:
    assert percentile(values, part) == expected


def test_sizes_are_told_from_small_to_large_with_parts_and_all_of_them_last() -> None:
    waits = [PodWait(size, 0.0, 5.0) for size in ("8", "16", "shared", "1", "0")]
    waits += [PodWait("32", 0.0, 7.0, ran=False), PodWait("32", 0.0, 9.0, ran=False, left=True)]

    rows = table(waits)

    assert list(rows) == ["0", "1", "8", "16", "32", "shared", "all"]
    assert (rows["32"]["count"], rows["32"]["still"], rows["32"]["left"]) == (0, 1, 1)
    assert (rows["all"]["count"], rows["all"]["still"], rows["all"]["left"]) == (5, 1, 1)


@pytest.mark.parametrize(
    ("ran", "never", "mean", "bounds"),
    [
        pytest.param([1.0, 2.0, 3.0], [], 2.0, [], id="all-ran"),
        pytest.param([1.0] * 98 + [100.0], [50.0], 2.48, ["max", "mean", "p99"], id="one-of-many-did-not"),
        pytest.param([0.0, 0.0], [600.0, 600.0], 300.0, ["max", "mean", "p90", "p99"], id="half-of-them-did-not"),
        pytest.param([], [600.0], 600.0, ["max", "mean", "p50", "p90", "p99"], id="nobody-ran"),
    ],
)
def test_pods_that_never_ran_count_as_long_as_they_waited(
    ran: list[float], never: list[float], mean: float, bounds: list[str]
) -> None:
    found = row([*(PodWait("1", 0, one) for one in ran), *(PodWait("1", 0, one, ran=False) for one in never)])
    assert found["mean"] == pytest.approx(mean)
    assert found["atLeast"] == bounds


def test_what_is_paid_for_and_not_given_is_wasted() -> None:
    sheet = ScoreSheet()
    sheet.machine(8, 16 * MICROS)
    sheet.at(3600)
    sheet.allocated(6000)
    sheet.begins_to_wait("a", "1", 1000)
    sheet.at(7200)
    sheet.ceases_to_wait("a", 1000, placed=True)
    sheet.machine(8, 16 * MICROS, gone=True)
    sheet.at(9000)

    report = sheet.report({})

    assert report["gpus"]["hours"] == {"capacity": 16.0, "allocated": 9.0, "waste": 10.0, "wasteWhileWaiting": 1.0}
    assert report["cost"] == {"total": 32.0, "wasted": 20.0, "currency": "USD"}
    assert report["seconds"] == 9000.0


def test_what_made_the_world_is_not_counted_and_what_is_there_counts_on() -> None:
    sheet = ScoreSheet()
    sheet.machine(8, MICROS)
    sheet.churn["joined"] += 1
    sheet.at(50)
    sheet.begin()
    sheet.at(3600)

    report = sheet.report({})

    assert report["churn"] == {}
    assert report["gpus"]["hours"]["capacity"] == 8.0


def test_equal_reports_are_equal_bytes() -> None:
    sheets = [ScoreSheet(), ScoreSheet()]
    for sheet, words in zip(sheets, (("a", "b"), ("b", "a")), strict=True):
        for word in words:
            sheet.decisions[word] += 1

    assert report_bytes(sheets[0].report({})) == report_bytes(sheets[1].report({}))


def test_a_curve_is_coarser_the_longer_it_is() -> None:
    series = Series(("level",))
    series.add(0.0, FIRST_WIDTH * MOST_POINTS * 3, (2.0,))

    columns = series.columns(FIRST_WIDTH * MOST_POINTS * 3)

    assert series.width == FIRST_WIDTH * 4
    assert len(columns["level"]) == MOST_POINTS * 3 // 4
    assert set(columns["level"]) == {2.0}


@given(st.lists(st.tuples(st.floats(0.001, 500_000), st.integers(0, 1000)), min_size=1, max_size=60))
def test_no_curve_loses_anything(spans: list[tuple[float, int]]) -> None:
    series, at, total = Series(("level",)), 0.0, 0.0
    for seconds, level in spans:
        series.add(at, at + seconds, (level,))
        total += level * seconds
        at += seconds

    means = series.columns(at)["level"]
    lasted = [min(series.width, at - number * series.width) for number in range(len(means))]

    assert len(means) <= MOST_POINTS
    assert sum(mean * seconds for mean, seconds in zip(means, lasted, strict=True)) == pytest.approx(
        total, rel=1e-3, abs=0.001 * at + 1
    )
