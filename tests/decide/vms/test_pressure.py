"""Pressure of a node: tables in plain numbers, and since when it lasts."""

import pytest

from tests.vms import a_row, size
from ullage.decide.vms.pressure import PressureTracker, unaccounted_pressure
from ullage.model.units import Instant, Seconds
from ullage.model.vm import LedgerRow, NodeLedger, VmAmounts

CALM = a_row(reserved=5)
NONE = VmAmounts(0, 0)


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        pytest.param(CALM, CALM, (0, 0), id="below-the-watermark"),
        pytest.param(a_row(reserved=12), a_row(reserved=12), (0, 0), id="at-the-watermark-is-not-above-it"),
        pytest.param(a_row(reserved=15), CALM, (3, 0), id="above-it-is-logical-pressure"),
        pytest.param(a_row(reserved=15, capacity_pressure=2), CALM, (5, 0), id="denied-requests-add"),
        pytest.param(a_row(reserved=15, accounted=3), CALM, (0, 0), id="vms-on-their-way-account"),
        pytest.param(a_row(reserved=15, accounted=9), CALM, (0, 0), id="never-negative"),
        pytest.param(a_row(reserved=15, buffer=2), CALM, (1, 0), id="a-buffer-may-not-be-in-use"),
        pytest.param(CALM, a_row(reserved=15), (0, 3), id="each-resource-by-itself"),
        pytest.param(
            a_row(reserved=13), a_row(reserved=5, capacity_pressure=9), (1, 2), id="room-below-the-watermark-counts"
        ),
    ],
)
def test_unaccounted(cpu: LedgerRow, memory: LedgerRow, expected: tuple[int, int]) -> None:
    assert unaccounted_pressure(NodeLedger(cpu, memory)) == VmAmounts(*expected)


@pytest.mark.parametrize(
    ("factor", "expected"), [(1.0, 3), (0.5, 2), (0.001, 1)], ids=["whole", "half-rounded-up", "never-nothing"]
)
def test_capacity_pressure_counts_with_a_factor(factor: float, expected: int) -> None:
    ledger = NodeLedger(a_row(reserved=13, capacity_pressure=3, accounted=1), CALM)
    assert unaccounted_pressure(ledger, factor) == VmAmounts(expected, 0)


def test_pressure_has_to_last() -> None:
    tracker = PressureTracker(Seconds(30.0))
    pressure = size(1, 0)
    assert not tracker.observe("n", pressure, now=Instant(100.0))
    assert tracker.next_deadline() == 130.0
    assert not tracker.observe("n", pressure, now=Instant(129.0))
    assert tracker.observe("n", pressure, now=Instant(130.0))
    assert tracker.next_deadline() is None, "no moment in the past"
    assert tracker.observe("n", pressure, now=Instant(131.0))


def test_relief_starts_the_time_again() -> None:
    tracker = PressureTracker(Seconds(30.0))
    tracker.observe("n", size(1, 0), now=Instant(100.0))
    tracker.observe("n", NONE, now=Instant(110.0))
    assert tracker.next_deadline() is None
    assert not tracker.observe("n", size(1, 0), now=Instant(140.0))


def test_a_clock_set_back_makes_no_pressure_last() -> None:
    tracker = PressureTracker(Seconds(30.0))
    tracker.observe("n", size(1, 0), now=Instant(100.0))
    assert not tracker.observe("n", size(1, 0), now=Instant(0.0))


def test_a_node_that_is_gone_is_forgotten() -> None:
    tracker = PressureTracker(Seconds(30.0))
    tracker.observe("n", size(1, 0), now=Instant(100.0))
    tracker.forget("n")
    assert tracker.next_deadline() is None
