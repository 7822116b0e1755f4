"""The steady state between filling and emptying."""

import random

import pytest

from ullage.sim.world.steady import queue_grows, steady_state, warm_up
from ullage.sim.world.waits import PodWait

RNG = random.Random(7)
NOISE = [RNG.uniform(-1, 1) for _ in range(200)]


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        pytest.param([60 + one for one in NOISE], 0, 30, id="steady-from-the-beginning"),
        pytest.param([min(60, 2 * n) + one for n, one in enumerate(NOISE)], 25, 40, id="fills-for-30"),
    ],
)
def test_filling_is_left_out(values: list[float], low: int, high: int) -> None:
    found = warm_up(values)
    assert found is not None
    assert low <= found <= high


def test_what_never_settles_has_no_steady_state() -> None:
    assert warm_up([float(n) for n in range(100)]) is None


def series(points: int) -> dict[str, list[float]]:
    used = [min(8.0, n / 10) for n in range(points)]
    return {
        "capacity": [10.0] * points,
        "allocated": used,
        "waiting": [0.0] * points,
        "nodes": [1.0] * points,
        "costPerHour": [20.0] * points,
    }


def test_waits_and_costs_of_the_window_alone() -> None:
    waits = [PodWait("1", 0.0, 1000.0), PodWait("1", 9000.0, 10.0), PodWait("1", 50_000.0, 2000.0)]
    found = steady_state(series(400), 60.0, 200 * 60.0, waits)
    assert found["found"]
    assert 60 * 60 <= found["from"] <= 90 * 60
    assert found["to"] == 12_000
    assert found["waiting"]["mean"] == 10.0
    assert found["allocation"] == pytest.approx(0.8, abs=0.01)
    assert found["idleCostPerHour"] == pytest.approx(4.0, abs=0.2)


def test_a_short_run_says_why_it_has_none() -> None:
    found = steady_state(series(10), 60.0, 600.0, [])
    assert found == {"found": False, "why": "jobs arrive for less than 20 minutes"}


@pytest.mark.parametrize(
    ("waiting", "grows"),
    [([float(n) for n in range(30)], True), ([5.0] * 30, False), ([0.0] * 29 + [0.1], False)],
    ids=["grows", "stays", "hardly-any"],
)
def test_a_queue_that_grows_is_told(waiting: list[float], grows: bool) -> None:
    assert queue_grows(waiting, 100.0) is grows
