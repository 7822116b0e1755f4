"""Headlines: which run is better, by how much, and how sure that is."""

from dataclasses import replace
from typing import Any

import pytest

from tests.sim.report.sheets import a_sheet
from ullage.sim.report.headline import headline
from ullage.sim.report.intervals import grouped, interval, t_quantile
from ullage.sim.report.run_sheet import LEFT_OUT, WAITING, RunSheet


def waited(group: str, *means: float, cost: float = 10.0, **steady: Any) -> list[RunSheet]:
    """Runs of a group, a seed for each mean wait in the steady state."""
    return [
        replace(
            a_sheet(
                f"{group} seed={seed}",
                steady={
                    "found": True,
                    "from": 600.0,
                    "to": 7200.0,
                    "allocation": 0.8,
                    "costPerHour": cost,
                    "idleCostPerHour": 2.0,
                    "waiting": {"mean": mean, "atLeast": []},
                }
                | steady,
                cost={"total": 100.0, "wasted": 20.0, "currency": "USD"},
                waiting={"all": {"count": 9, "still": 0, "left": 0, "mean": mean, "atLeast": []}},
            ),
            group=group,
            seed=seed,
        )
        for seed, mean in enumerate(means)
    ]


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        pytest.param(
            [*waited("a", 100, 110, 120), *waited("b", 50, 61, 69)],
            [
                "b is better than a: pods wait 45.5 % less on average (1 min against 1.83 min; 3 seeds, ",
                "95 % interval of the difference",
                "at the same cost",
            ],
            id="certain",
        ),
        pytest.param(
            [*waited("a", 100, 50, 120), *waited("b", 50, 100, 90)],
            ["No difference is shown between b and a", "95 % interval of the difference"],
            id="not-certain",
        ),
        pytest.param(
            [*waited("a", 100), *waited("b", 50)],
            ["On one seed, b is better than a", "one seed is no proof: add --seeds 5"],
            id="one-seed-is-no-proof",
        ),
        pytest.param(
            [*waited("a", 60, 61, 60), *waited("b", 100, 101, 102)],
            ["a is better than b: pods wait 40.3 % less"],
            id="the-first-is-the-best",
        ),
        pytest.param(
            [*waited("a", 100, 110, 120, cost=10), *waited("b", 50, 61, 69, cost=8)],
            ["and it saves 1,460 USD a month"],
            id="cheaper-too",
        ),
        pytest.param(
            [*waited("a", 100, 110, 120, cost=10), *waited("b", 50, 61, 69, cost=12)],
            ["but it costs 1,460 USD more a month"],
            id="better-and-dearer",
        ),
        pytest.param(
            [*waited("a", 0.1, 0.1, cost=10), *waited("b", 0.1, 0.1, cost=8)],
            ["Nobody had to wait with any of them; b saves 1,460 USD a month beside a"],
            id="nobody-waits-and-one-is-cheaper",
        ),
        pytest.param(
            [*waited("a", 0.1), *waited("b", 0.2)],
            ["this load does not tell them apart"],
            id="nothing-differs",
        ),
        pytest.param(
            waited("a", 60, queueGrows=True),
            ["a: pods waited 1 min on average, 80.00 % of the GPUs were in use in the steady state",
             "7,300 USD a month", "The queue grows all along"],
            id="one-run",
        ),
    ],
)  # fmt: skip
def test_headline(runs: list[RunSheet], said: list[str]) -> None:
    found = headline(runs)
    for part in said:
        assert part in found


def test_one_pod_that_can_never_run_is_no_plural() -> None:
    sheet = replace(a_sheet("a"), workload={LEFT_OUT: 1})
    assert headline([sheet]).endswith(" 1 pod was left out: it can never run on this fleet.")


def test_pods_that_never_ran_are_in_it() -> None:
    times = {"count": 31, "still": 369, "left": 0, "mean": 4000.0, "atLeast": ["mean"]}
    sheet = a_sheet("a", waiting={"all": times}, steady={"found": False, "why": "too short"})
    sheet = replace(sheet, workload={LEFT_OUT: 2})
    found = headline([sheet])
    assert "pods waited at least 1.11 h on average" in found
    assert "369 of 400 pods never ran with a" in found
    assert "2 pods were left out: they can never run on this fleet" in found


@pytest.mark.parametrize(
    ("values", "half"),
    [([5.0], 0.0), ([1.0, 1.0, 1.0], 0.0), ([1.0, 2.0, 3.0], 4.303 / 3**0.5)],
    ids=["one", "no-spread", "three"],
)
def test_intervals(values: list[float], half: float) -> None:
    assert interval(values).half == pytest.approx(half)


def test_many_seeds_come_near_the_normal_distribution() -> None:
    assert [round(t_quantile(freedom), 2) for freedom in (1, 30, 31, 60, 120)] == [12.71, 2.04, 2.04, 2.0, 1.98]


def test_runs_are_grouped_by_all_but_the_seed() -> None:
    one, two = grouped([*waited("a", 1, 3), *waited("b", 5)])
    assert (one.label, one.seeds, two.seeds) == ("a", (0, 1), (0,))
    of = one.of(WAITING)
    assert of is not None
    assert of.mean == 2.0
