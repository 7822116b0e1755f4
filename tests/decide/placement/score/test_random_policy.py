"""Placing by chance: even, repeatable, and of another mind with another seed."""

from collections import Counter

import numpy as np
import pytest

from tests.decide.placement.score.fields import WHOLE, Field
from ullage.decide.placement.score.gpu_scorer import GpuDemand, best
from ullage.decide.placement.score.policies import policy_maker
from ullage.decide.placement.score.random_policy import RandomScorer

ONE = GpuDemand(1000, 1, WHOLE)
NODES = 8
TURNS = 4000


def winners(seed: int, turns: int) -> list[int]:
    """Who is chosen when every turn changes one node a little and leaves all of them fitting."""
    field = Field(*[(64, (1000,) * 4)] * NODES)
    chosen = []
    for _ in range(turns):
        won = best(RandomScorer(seed), field.columns, ONE, field.fitting(ONE))
        assert won is not None
        field.columns.stamp[won.row] += 1
        chosen.append(won.row)
    return chosen


def test_every_node_has_its_share() -> None:
    shares = Counter(winners(1, TURNS))
    assert set(shares) == set(range(NODES))
    assert all(abs(count * NODES / TURNS - 1) < 0.2 for count in shares.values()), shares


def test_a_seed_repeats_and_another_differs() -> None:
    assert winners(1, 50) == winners(1, 50)
    assert winners(1, 50) != winners(2, 50)


def test_asking_about_some_rows_says_what_asking_about_all_does() -> None:
    field = Field(*[(64, (1000,) * 4)] * NODES)
    policy = RandomScorer(3)
    everything = policy.keys(field.columns, ONE, field.fitting(ONE))
    some = np.array([5, 2])
    assert list(policy.keys_for(ONE).at(field.columns, some)) == list(everything[some])
    assert policy.keys_for(ONE).at_row(field.columns, 4) == everything[4]


def test_a_device_with_room_is_chosen() -> None:
    field = Field((64, (100, 500, 200, 500)))
    seen = set()
    for turn in range(40):
        field.columns.stamp[0] = turn
        seen.add(RandomScorer(1).device(field.columns, GpuDemand(1000, 1, (400,)), 0))
    assert seen == {1, 3}


@pytest.mark.parametrize(("name", "seed"), [("random", 0), ("random/7", 7)])
def test_simulations_name_it(name: str, seed: int) -> None:
    assert policy_maker(name)(*(None, None)) == RandomScorer(seed)  # type: ignore[arg-type]  # it looks at neither
