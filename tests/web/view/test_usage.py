"""GPU-hours and money: summed up as long as something is so, and kept in samples that never become too many."""

import itertools

import pytest

from ullage.web.view.rows import NodeRow, Sample
from ullage.web.view.usage import MOST_SAMPLES, NodeCost, UsageMeter, worth_of

HALF_USED = NodeCost(nodes=1, gpus=8000, allocated=4000, price=80_000_000, waste=40_000_000)


def samples(meter: UsageMeter) -> list[Sample]:
    found = [row for row in meter.series.rows.values() if isinstance(row, Sample)]
    return sorted(found, key=lambda row: row.at)


def test_an_hour_of_half_a_node() -> None:
    meter = UsageMeter()
    meter.advance(HALF_USED, 0, now=1000.0)
    meter.advance(HALF_USED, 0, now=1000.0 + 3600)
    assert (meter.gpu_hours, meter.idle_gpu_hours) == pytest.approx((8.0, 4.0))
    assert (meter.cost, meter.wasted) == pytest.approx((80.0, 40.0))


def test_what_was_so_counts_until_it_changes() -> None:
    meter = UsageMeter()
    meter.advance(NodeCost(), 0, now=0.0)
    meter.advance(NodeCost(), 0, now=1800.0)
    meter.advance(HALF_USED, 0, now=3600.0)
    assert meter.gpu_hours == pytest.approx(4.0)


def test_time_that_goes_back_counts_for_nothing() -> None:
    meter = UsageMeter()
    meter.advance(HALF_USED, 0, now=100.0)
    meter.advance(HALF_USED, 0, now=50.0)
    assert meter.gpu_hours == 0.0


def test_samples_stay_few_and_cover_all_time() -> None:
    meter = UsageMeter()
    now = 0.0
    meter.advance(HALF_USED, 3, now=now)
    for _ in range(5000):
        now += 1.7
        meter.advance(HALF_USED, 3, now=now)
    found = samples(meter)
    assert len(found) <= MOST_SAMPLES
    assert sum(one.width for one in found) == pytest.approx(now)
    assert {(one.gpus, one.allocated, one.pending, one.waste) for one in found} == {(8.0, 4.0, 3.0, 40.0)}


def test_samples_follow_one_another_without_a_gap() -> None:
    meter = UsageMeter()
    for step in range(1200):
        meter.advance(HALF_USED, 0, now=step * 3.1)
    found = samples(meter)
    for one, other in itertools.pairwise(found):
        assert other.at == pytest.approx(one.at + one.width)


def test_a_long_silence_is_counted_at_once() -> None:
    meter = UsageMeter()
    meter.advance(HALF_USED, 0, now=0.0)
    meter.advance(HALF_USED, 0, now=86_400.0 * 30)
    assert len(samples(meter)) <= MOST_SAMPLES
    assert meter.gpu_hours == pytest.approx(8 * 24 * 30)


WORTHS: list[tuple[str, NodeRow, NodeCost]] = [
    ("all free", NodeRow(name="n", states="ffff"), NodeCost(1, 4000, 0, 0, 100, 100, 0)),
    ("half leased", NodeRow(name="n", states="llff"), NodeCost(1, 4000, 2000, 0, 100, 50, 0)),
    ("a quarter of one", NodeRow(name="n", states="sf", taken=(500, 0)), NodeCost(1, 2000, 500, 0, 100, 75, 0)),
    ("one broken", NodeRow(name="n", states="lllu"), NodeCost(1, 4000, 3000, 1000, 100, 25, 0)),
    ("still coming", NodeRow(name="n", states="cccc"), NodeCost(1, 0, 0, 0, 100, 100, 0)),
    ("no GPUs", NodeRow(name="n"), NodeCost(1, 0, 0, 0, 100, 0, 0)),
]


@pytest.mark.parametrize(("row", "worth"), [case[1:] for case in WORTHS], ids=[case[0] for case in WORTHS])
def test_what_a_node_is_worth(row: NodeRow, worth: NodeCost) -> None:
    assert worth_of(row, 100) == worth


def test_a_node_without_a_price_is_counted_as_such() -> None:
    assert worth_of(NodeRow(name="n", states="ff"), 0).unpriced == 1
