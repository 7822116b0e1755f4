"""The fragmentation score: what it measures, what it prefers, and that remembering changes nothing."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.placement.score.fields import WHOLE, Field, usable_by_the_book
from ullage.decide.placement.score.baselines import BEST_FIT, SPREAD
from ullage.decide.placement.score.fragmentation import FragmentationScorer
from ullage.decide.placement.score.fragmentation_measure import FragmentationMeasure
from ullage.decide.placement.score.fragmentation_states import NodeStateCache
from ullage.decide.placement.score.gpu_scorer import GpuDemand, ScoreColumns, points
from ullage.decide.placement.score.workload_mix import TypicalDemands, typical_of

ONE = GpuDemand(4000, 1, WHOLE)
FOUR = GpuDemand(16_000, 4, WHOLE)
EIGHT = GpuDemand(32_000, 8, WHOLE)
HALF = GpuDemand(2000, 1, (500,))
FREE = (1000,) * 8

demands = st.sampled_from(
    [
        GpuDemand(4000, 1, (1000, 1000)),
        GpuDemand(12_000, 1, (1000, 0)),
        GpuDemand(2000, 1, (500, 250)),
        GpuDemand(6000, 1, (810, 810)),
        GpuDemand(3000, 2, (300, 300)),
        GpuDemand(8000, 2, (1000, 1000)),
        GpuDemand(30_000, 8, (1000, 1000)),
        GpuDemand(5000, 0, (0, 0)),
    ]
)
mixes = st.dictionaries(demands, st.integers(1, 20).map(float), min_size=1)
nodes = st.tuples(
    st.sampled_from([16, 32, 64]), st.lists(st.sampled_from([0, 190, 300, 500, 1000]), min_size=1, max_size=8)
)
fields = st.lists(st.tuples(nodes, st.integers(0, 1)), min_size=1, max_size=6).map(
    lambda built: Field(*(node for node, _ in built), models=[model for _, model in built])
)


def a_policy(*popular: GpuDemand) -> FragmentationScorer:
    models = len(popular[0].milli)
    return FragmentationScorer(typical_of(dict.fromkeys(popular, 1.0), cover=1.0), np.ones(models))


@settings(max_examples=150)
@given(fields, mixes)
def test_measures_what_typical_pods_could_use(field: Field, mix: dict[GpuDemand, float]) -> None:
    typical, c = typical_of(mix), field.columns
    measure = FragmentationMeasure(typical, 2)
    measured = measure.usable(measure.state(c.gpu_left, c.cpu_left, c.model))
    for row in range(len(c.stamp)):
        plain = usable_by_the_book(int(c.cpu_left[row]), c.gpu_left[row].tolist(), int(c.model[row]), typical)
        assert measured[row] == pytest.approx(plain)


@settings(max_examples=200)
@given(fields, mixes, demands)
def test_what_a_placement_spoils_is_the_difference_it_makes(
    field: Field, mix: dict[GpuDemand, float], demand: GpuDemand
) -> None:
    typical, c = typical_of(mix), field.columns
    states = NodeStateCache(FragmentationMeasure(typical, 2))
    rows = np.flatnonzero(field.fitting(demand))
    if not len(rows):
        return
    states.look(c, rows.tolist())
    spoilt, lefts = states.spoilt(demand, states.of_rows(rows))
    for place, row in enumerate(rows.tolist()):
        chosen = -1 if lefts is None else c.gpu_left[row].tolist().index(lefts[place])
        assert spoilt[place] == pytest.approx(_least_spoilt(c, demand, row, typical, chosen), abs=1e-6)


def _least_spoilt(c: ScoreColumns, demand: GpuDemand, row: int, typical: TypicalDemands, device: int) -> float:
    """Tries each device for a share and insists that `device` is as good as any."""
    left, cpu, model = c.gpu_left[row].tolist(), int(c.cpu_left[row]), int(c.model[row])
    size = demand.milli[model]

    def spoilt(chosen: list[int]) -> float:
        after = [amount - size * (gpu in chosen) for gpu, amount in enumerate(left)]
        before = usable_by_the_book(cpu, left, model, typical)
        return before - usable_by_the_book(cpu - demand.cpu, after, model, typical) - size * len(chosen)

    roomy = sorted((gpu for gpu, amount in enumerate(left) if amount >= size), key=lambda gpu: (left[gpu], gpu))
    if demand.gpus == 1 and size < 1000:
        least = min(spoilt([gpu]) for gpu in roomy)
        assert spoilt([device]) == pytest.approx(least, abs=1e-5)
        return least
    return spoilt(roomy[: demand.gpus])


def test_keeps_whole_nodes_for_those_who_need_them() -> None:
    policy = a_policy(ONE, EIGHT)
    field = Field((64, FREE), (64, (1000, 1000, 1000, 0, 0, 0, 0, 0)))
    assert field.place(policy, ONE) == (1, (0,))
    assert field.place(policy, EIGHT) == (0, tuple(range(8)))


def test_a_share_goes_where_its_neighbours_can_use_the_rest() -> None:
    policy = a_policy(HALF, ONE)
    field = Field((64, (1000, 500, 1000)))
    assert field.place(policy, HALF) == (0, (1,))


def test_sees_that_gpus_without_cpu_will_be_stranded() -> None:
    """On either node one more of each pod would fit; only the second has CPU to spare for all its GPUs."""
    field = Field((32, FREE), (64, FREE))
    assert field.place(a_policy(ONE, FOUR), GpuDemand(8000, 0, (0,))) == (1, ())


def test_scarce_models_are_kept_for_those_who_name_them() -> None:
    free_choice, named = GpuDemand(4000, 1, (1000, 1000)), GpuDemand(4000, 1, (0, 1000))
    typical = typical_of({free_choice: 1.0, named: 1.0}, cover=1.0)
    nodes = ((64, FREE), (64, FREE))
    policy = FragmentationScorer(typical, np.array([8.0, 8.0]))
    assert Field(*nodes, models=[1, 0]).place(policy, free_choice) == (1, (0,))
    assert Field(*nodes, models=[1, 0]).place(policy, named) == (0, (0,))


def test_a_node_is_remembered_by_all_of_its_state() -> None:
    """Pods without GPUs change nothing but the CPU left, which decides how many of its GPUs can be used."""
    field, policy = Field((64, FREE)), a_policy(ONE, FOUR)
    fits = field.fitting(HALF)
    before = policy.keys(field.columns, HALF, fits).tolist()
    for cores in (40, 8):
        field.columns.cpu_left[0] = cores * 1000
        field.columns.stamp[0] += 1
        fresh = a_policy(ONE, FOUR).keys(field.columns, HALF, fits).tolist()
        assert policy.keys(field.columns, HALF, fits).tolist() == fresh
    assert fresh != before


def test_numbering_states_anew_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ullage.decide.placement.score.fragmentation_states.MOST_STATES", 0)
    forgetful, field = a_policy(HALF, ONE, FOUR), Field((64, FREE), (32, FREE))
    numberings = set()
    for demand in [HALF, ONE, HALF, GpuDemand(500, 1, (100,))] * 8:
        fits = field.fitting(demand)
        fresh = a_policy(HALF, ONE, FOUR).keys(field.columns, demand, fits)[fits].tolist()
        assert forgetful.keys(field.columns, demand, fits)[fits].tolist() == fresh
        field.place(forgetful, demand)
        numberings.add(forgetful._states.generation)
    assert len(numberings) > 1, "or else nothing was tried"


@settings(max_examples=60, deadline=None)
@given(fields, mixes, st.lists(demands, min_size=1, max_size=40))
def test_remembering_changes_nothing(field: Field, mix: dict[GpuDemand, float], arrivals: list[GpuDemand]) -> None:
    typical = typical_of(mix)
    remembering = FragmentationScorer(typical, np.ones(2))
    for demand in arrivals:
        fits = field.fitting(demand)
        fresh = FragmentationScorer(typical, np.ones(2)).keys(field.columns, demand, fits)
        assert remembering.keys(field.columns, demand, fits)[fits].tolist() == fresh[fits].tolist()
        field.place(remembering, demand)


@settings(max_examples=60, deadline=None)
@given(fields, mixes, st.lists(demands, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(
    field: Field, mix: dict[GpuDemand, float], arrivals: list[GpuDemand], chance: Random
) -> None:
    order = list(range(len(field.columns.stamp)))
    chance.shuffle(order)
    shuffled = field.permuted(order)
    one, other = (FragmentationScorer(typical_of(mix), np.ones(2)) for _ in range(2))
    for demand in arrivals:
        assert field.place(one, demand) == shuffled.place(other, demand)


def test_nodes_may_come_and_go() -> None:
    policy = a_policy(ONE, EIGHT)
    small = Field((64, FREE))
    assert small.place(policy, EIGHT) == (0, tuple(range(8)))
    larger = Field((64, (0,) * 8), (64, FREE))
    larger.columns.stamp[0] = small.columns.stamp[0]
    assert larger.place(policy, EIGHT) == (1, tuple(range(8)))
    assert small.place(policy, EIGHT) is None


def test_without_a_mix_nodes_are_filled_up() -> None:
    policy = FragmentationScorer(typical_of({}), np.ones(1))
    field = Field((64, FREE), (64, (1000, 0, 0, 0, 0, 0, 0, 0)))
    assert field.place(policy, ONE) == (1, (0,))


def test_packs_better_than_best_fit_and_spread() -> None:
    """Shares of 0.6 strand 0.4 unless they meet those of 0.4; eight-GPU pods need whole nodes."""
    large, small = GpuDemand(3000, 1, (600,)), GpuDemand(3000, 1, (400,))
    arrivals = [large, small, ONE, large, small, EIGHT] * 14
    placed = {}
    for name, policy in (("ours", a_policy(large, small, ONE, EIGHT)), ("best-fit", BEST_FIT), ("spread", SPREAD)):
        field = Field(*((96, FREE) for _ in range(20)))
        placed[name] = sum(demand.gpus * demand.milli[0] for demand in arrivals if field.place(policy, demand))
    assert placed["ours"] >= placed["best-fit"] > placed["spread"]


def test_points_are_from_0_to_100() -> None:
    policy = a_policy(ONE, EIGHT)
    field = Field((64, FREE), (64, (1000, 0, 0, 0, 0, 0, 0, 0)), (2, FREE))
    fits = field.fitting(ONE)
    assert points(policy.keys(field.columns, ONE, fits), fits).tolist() == [0, 100, 0]
    assert points(policy.keys(field.columns, ONE, ~fits), fits & False).tolist() == [0, 0, 0]
