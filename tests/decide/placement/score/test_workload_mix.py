"""The observed mix, and what it says of scarce models."""

import numpy as np
import pytest

from tests.decide.placement.score.fields import WHOLE
from ullage.decide.placement.score.fragmentation_measure import FragmentationMeasure
from ullage.decide.placement.score.gpu_scorer import GpuDemand
from ullage.decide.placement.score.scarcity import CPU_POD, HIGHEST, PRICE, price, scarcity
from ullage.decide.placement.score.workload_mix import LEAST_ARRIVALS, WorkloadMix, typical_of

ONE, TWO, HALF = GpuDemand(4000, 1, WHOLE), GpuDemand(8000, 2, WHOLE), GpuDemand(1000, 1, (500,))


def test_popular_demands_make_up_95_percent() -> None:
    typical = typical_of({ONE: 70.0, TWO: 25.0, HALF: 5.0})
    assert typical.demands == (ONE, TWO, HALF)
    assert typical.popular == 2
    assert typical.weights == pytest.approx((0.70, 0.25, 0.05))


def test_equally_popular_demands_have_an_order() -> None:
    assert typical_of({ONE: 1.0, TWO: 1.0}) == typical_of({TWO: 1.0, ONE: 1.0})


def test_old_arrivals_fade() -> None:
    mix = WorkloadMix(half_life=LEAST_ARRIVALS)
    for _ in range(1 + 10 * LEAST_ARRIVALS):  # the mix is renewed at the first, and then every so often
        mix.record(ONE)
    for _ in range(LEAST_ARRIVALS):
        mix.record(TWO)
    shares = dict(zip(mix.typical(ONE).demands, mix.typical(ONE).weights, strict=True))
    assert shares[TWO] == pytest.approx(0.5, abs=0.01)


def test_before_the_first_placement_the_asking_demand_is_the_mix() -> None:
    mix = WorkloadMix()
    assert mix.typical(ONE).demands == (ONE,)
    assert mix.typical(TWO).demands == (TWO,)
    mix.record(ONE)
    assert mix.typical(TWO).demands == (ONE,)


def test_a_mix_that_hardly_moves_stays_the_same_object() -> None:
    mix = WorkloadMix()
    for number in range(2000):
        mix.record(TWO if number % 4 == 0 else ONE)
    first = mix.typical(ONE)
    for number in range(2000):
        mix.record(TWO if number % 4 == 0 else ONE)
    assert mix.typical(ONE) is first
    for _ in range(2000):
        mix.record(HALF)
    assert mix.typical(ONE) is not first
    assert HALF in mix.typical(ONE).demands


def test_a_mix_is_looked_at_again_only_after_many_arrivals() -> None:
    mix = WorkloadMix()
    mix.record(ONE)
    first = mix.typical(ONE)
    for _ in range(LEAST_ARRIVALS - 1):
        mix.record(TWO)
        assert mix.typical(ONE) is first
    mix.record(TWO)
    assert mix.typical(ONE) is not first


def test_counting_for_ever_does_not_overflow() -> None:
    mix = WorkloadMix(half_life=1)
    for number in range(3000):
        mix.record(ONE if number % 2 else TWO)
    assert sum(mix.typical(ONE).weights) == pytest.approx(1.0)


FREE, NAMED, EITHER = GpuDemand(1, 1, (1000,) * 3), GpuDemand(1, 1, (0, 1000, 0)), GpuDemand(1, 1, (1000, 1000, 0))


def test_a_model_is_as_scarce_as_it_is_asked_for_by_name() -> None:
    capacity = np.array([50.0, 25.0, 25.0])
    assert scarcity(typical_of({FREE: 1.0}), capacity).tolist() == [0.0, 0.0, 0.0]
    assert scarcity(typical_of({FREE: 75.0, NAMED: 25.0}), capacity).tolist() == pytest.approx([0.0, 1.0, 0.0])
    assert scarcity(typical_of({FREE: 25.0, EITHER: 75.0}), capacity).tolist() == pytest.approx([1.0, 1.0, 0.0])
    assert scarcity(typical_of({NAMED: 1.0}), capacity).max() == HIGHEST


def test_models_nobody_has_make_no_other_scarce() -> None:
    """Nodes without GPUs are a model, too, and no demand takes it."""
    free, named = GpuDemand(1, 1, (0, 1000, 1000)), GpuDemand(1, 1, (0, 0, 1000))
    capacity = np.array([0.0, 75.0, 25.0])
    assert scarcity(typical_of({free: 75.0, named: 25.0}), capacity).tolist() == pytest.approx([0.0, 0.0, 1.0])


def test_demands_seen_before_a_model_was_known_still_count() -> None:
    capacity = np.array([0.0, 50.0, 50.0])
    mix = typical_of({GpuDemand(1, 1, (0, 500)): 1.0, GpuDemand(1, 1, (0, 500, 250)): 1.0})
    assert scarcity(mix, capacity).tolist() == [0.0, 0.0, 0.0]
    assert FragmentationMeasure(mix, 3).kind_of_model.tolist() == [0, 2, 1], (
        "what it took of others, it takes of the new one"
    )
    assert GpuDemand(1, 1, (0, 500, 0)).sizes(4).tolist() == [0, 500, 0, 0], "who is choosy is thought to stay so"


def test_rare_demands_count_for_scarcity() -> None:
    mix = typical_of({FREE: 96.0, NAMED: 4.0})
    assert mix.popular == 1
    assert scarcity(mix, np.array([50.0, 25.0, 25.0]))[1] == pytest.approx(0.16)


def test_who_can_go_nowhere_else_pays_nothing() -> None:
    scarce = np.array([0.0, 1.0, 0.5])
    assert price(NAMED, scarce).tolist() == [0.0, 0.0, 0.0]
    assert price(FREE, scarce).tolist() == pytest.approx([0.0, PRICE * 1000, PRICE * 500])
    assert price(GpuDemand(1, 0, (0, 0, 0)), scarce)[1] == pytest.approx(PRICE * CPU_POD * 1000)
