"""Winning nodes: ties, the simpler policies, and the list of names."""

import numpy as np
import pytest

from tests.decide.placement.score.fields import WHOLE, Field
from ullage.decide.placement.score.baselines import BEST_FIT, PACKING, SPREAD, BaselineScorer
from ullage.decide.placement.score.gpu_scorer import IDLE_BITS, GpuDemand, GpuScorer, best
from ullage.decide.placement.score.policies import POLICIES
from ullage.decide.placement.score.workload_mix import typical_of
from ullage.model.scoring import DEFAULT_POLICY

ONE = GpuDemand(4000, 1, WHOLE)
QUARTER = GpuDemand(1000, 1, (250,))
TWO = GpuDemand(4000, 2, WHOLE)
MUCH_CPU = GpuDemand(20_000, 1, (250,))
CPU_ONLY = GpuDemand(4000, 0, (0,))


ALL_EQUAL = BaselineScorer(lambda columns, _: np.zeros(len(columns.stamp), dtype=np.int64), lambda *_: -1)


def test_ties_go_to_the_least_idle_gpu_then_by_name() -> None:
    field = Field((8, (1000, 1000)), (8, (1000, 0)), (8, (1000, 0)))
    assert best(ALL_EQUAL, field.columns, ONE, field.fitting(ONE)) == (1, -1, 0)
    renamed = field.permuted([2, 0, 1])
    assert best(ALL_EQUAL, renamed.columns, ONE, renamed.fitting(ONE)) == (2, -1, 0), "the same node in another row"


def test_other_scores_come_on_top() -> None:
    field = Field((8, (1000, 1000)), (8, (1000, 0)))
    extra = np.array([1, 0]) << IDLE_BITS
    assert best(ALL_EQUAL, field.columns, ONE, field.fitting(ONE), extra) == (0, -1, 1)


def test_nothing_wins_where_nothing_fits() -> None:
    field = Field((2, (1000,)), (8, (900,)))
    assert best(ALL_EQUAL, field.columns, ONE, field.fitting(ONE)) is None
    empty = Field()
    assert best(ALL_EQUAL, empty.columns, ONE, np.zeros(0, dtype=np.bool_)) is None


@pytest.mark.parametrize(
    ("policy", "demand", "winner"),
    [
        pytest.param(BEST_FIT, ONE, (2, (0,)), id="best-fit-leaves-least"),
        pytest.param(SPREAD, ONE, (0, (0,)), id="spread-leaves-most"),
        pytest.param(PACKING, QUARTER, (1, (1,)), id="packing-fills-the-fullest-opened-gpu"),
        pytest.param(PACKING, ONE, (2, (0,)), id="packing-then-takes-free-gpus-of-used-nodes"),
        pytest.param(PACKING, TWO, (1, (2, 3)), id="packing-opens-a-node-last"),
        pytest.param(BEST_FIT, MUCH_CPU, (1, (1,)), id="best-fit-takes-the-fullest-device"),
        pytest.param(SPREAD, QUARTER, (0, (0,)), id="spread-takes-the-emptiest-device"),
        pytest.param(PACKING, CPU_ONLY, (2, ()), id="packing-of-pods-without-gpus-spares-idle-gpus"),
    ],
)
def test_baselines(policy: GpuScorer, demand: GpuDemand, winner: tuple[int, tuple[int, ...]]) -> None:
    field = Field((64, (1000,) * 4), (32, (500, 300, 1000, 1000)), (16, (1000, 0, 0, 0)))
    assert field.place(policy, demand) == winner


@pytest.mark.parametrize("name", ["fragmentation", "best-fit", "packing", "spread"])
def test_every_policy_places_by_its_name(name: str) -> None:
    policy = POLICIES[name](typical_of({ONE: 1.0, TWO: 1.0}), np.array([8.0]))
    field = Field((64, (1000,) * 4), (64, (1000,) * 4))
    placed = [field.place(policy, TWO) for _ in range(5)]
    assert sum(won is not None for won in placed) == 4
    assert not field.columns.gpu_left.any()


def test_the_default_is_in_the_list() -> None:
    assert DEFAULT_POLICY == "fragmentation"
    assert sorted(POLICIES) == ["best-fit", "fragmentation", "packing", "spread"]
