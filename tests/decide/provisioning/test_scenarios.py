"""The three scenarios of the behaviour asked for, to the number: 120 nodes, target utilisation 80 %, 80 in use."""

import pytest

from tests.decide.provisioning.pools import DELAY, PoolStory, a_provisioner, nodes
from ullage.decide.provisioning.pool_step import PoolStepKind

pytestmark = pytest.mark.story


@pytest.fixture
def pool() -> PoolStory:
    """At the beginning 20 nodes are tainted, and nothing else happens until their time has come."""
    story = PoolStory(a_provisioner(), nodes(busy=80, idle=40))
    assert story.loop() == {PoolStepKind.TAINT_FOR_DELETION: 20}
    assert (story.target, story.tainted) == (100, 20)
    for story.now in (1.0, DELAY / 2, DELAY - 0.001):
        assert story.loop() == {}
    return story


def test_scenario_a_usage_stays(pool: PoolStory) -> None:
    pool.now = DELAY
    assert pool.loop() == {PoolStepKind.TERMINATE_INSTANCE: 20}
    assert (len(pool.nodes), pool.tainted, pool.loop()) == (100, 0, {})


def test_scenario_b_usage_falls_at_the_delay(pool: PoolStory) -> None:
    pool.now = DELAY
    pool.use(60)
    assert pool.loop() == {PoolStepKind.TERMINATE_INSTANCE: 20}
    assert (pool.target, len(pool.nodes)) == (75, 100)
    assert pool.loop() == {PoolStepKind.TAINT_FOR_DELETION: 25}
    pool.now = 2 * DELAY - 1
    assert pool.loop() == {}
    pool.now = 2 * DELAY
    assert pool.loop() == {PoolStepKind.TERMINATE_INSTANCE: 25}
    assert (len(pool.nodes), pool.target, pool.loop()) == (75, 75, {})


def test_scenario_c_usage_rises_before_the_delay(pool: PoolStory) -> None:
    pool.now = DELAY - 1
    pool.use(88)
    assert pool.loop() == {PoolStepKind.UNTAINT: 10}
    assert (pool.target, pool.tainted) == (110, 10)
    assert pool.loop() == {}
    pool.now = DELAY
    assert pool.loop() == {PoolStepKind.TERMINATE_INSTANCE: 10}
    assert (len(pool.nodes), pool.loop()) == (110, {})


def test_load_that_comes_back_takes_the_taints_off_before_anything_is_bought(pool: PoolStory) -> None:
    pool.use(100)
    assert pool.loop(wanted=5) == {PoolStepKind.UNTAINT: 20}
    assert pool.loop(wanted=5) == {PoolStepKind.SCALE_UP: 5}
    assert (len(pool.nodes), pool.bought, pool.tainted) == (125, 5, 0)
