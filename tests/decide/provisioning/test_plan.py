"""Whole fleets: bursts come and go, nodes take their time, and never more is bought than is needed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.decide.provisioning.pools import DELAY
from tests.decide.provisioning.test_demand import eight, four, pods
from tests.decide.provisioning.worlds import World
from ullage.decide.provisioning.purchase_state import after_failure
from ullage.model.intents import ScaleUp
from ullage.model.pod import Pod
from ullage.model.provisioner import CloudFailure, FleetBudget
from ullage.model.units import Instant

pytestmark = pytest.mark.story


def named(several: list[Pod], prefix: str) -> list[Pod]:
    """The same pods with names of their own."""
    return [replace(pod, key=pod.key._replace(name=f"{prefix}-{pod.key.name}")) for pod in several]


def test_five_hundred_pods_and_two_provisioners() -> None:
    world = World(eight(max_size=40, price=10), four(max_size=60, price=6))
    world.ask(pods(500, 1))
    world.run(until=300.0)
    assert (world.sizes, world.waiting) == ({"eight": 40, "four": 45}, {}), (
        "as many as 500 GPUs need, in nodes of 8 and 4"
    )
    assert sum(count for _, _, count in world.creates) == 85
    world.leave(500)
    world.run(until=300.0 + 2 * DELAY)
    assert world.sizes == {"eight": 0, "four": 0}
    assert sum(count for _, _, count in world.creates) == 85


def test_a_burst_is_bought_for_at_once_after_the_batch_window() -> None:
    world = World(eight(scale_up_batch=30.0))
    for _ in range(16):
        world.ask(named(pods(1, 1), f"burst-{len(world.waiting):02}"))
        world.run(until=world.now + 1.0)
    assert world.creates == []
    world.run(until=200.0)
    assert (world.creates, world.waiting) == ([(30.0, "eight", 2)], {})


def test_no_capacity_falls_through_to_the_next_and_comes_back_later() -> None:
    world = World(eight(price=1), four(price=9, max_size=2))

    def no_capacity(action: ScaleUp) -> bool:
        if action.provisioner != "eight" or world.now > 100.0:
            return False
        pool = world.provisioners["eight"]
        world.provisioners["eight"] = replace(
            pool, back_off=after_failure(pool.back_off, CloudFailure.CAPACITY, now=Instant(world.now))
        )
        return True

    world.fails = no_capacity
    world.ask(pods(16, 1))
    world.run(until=100.0)
    assert world.creates == [(0.0, "four", 2)], "the rest waits: the other pool is full"
    world.run(until=300.0)
    assert world.creates == [(0.0, "four", 2), (120.0, "eight", 1)]
    assert world.waiting == {}


def test_a_budget_holds_whatever_is_asked_for() -> None:
    world = World(eight(), four(), budget=FleetBudget(gpus=20))
    world.ask(pods(40, 1))
    world.run(until=500.0)
    assert sum(world.sizes.values()) >= 3
    assert len(world.waiting) == 20


def test_nodes_are_kept_for_pods_that_come_back_before_the_delay() -> None:
    world = World(eight())
    world.ask(pods(16, 1))
    world.run(until=200.0)
    world.leave(16)
    world.run(until=200.0 + DELAY - 1)
    world.ask(pods(12, 1))
    world.run(until=200.0 + 3 * DELAY)
    assert (world.sizes, world.creates) == ({"eight": 2}, [(0.0, "eight", 2)])


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 12), st.integers(0, 400)), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_whatever_comes_and_goes_the_fleet_ends_empty_and_was_never_larger_than_needed(
    bursts: list[tuple[int, int, int]],
) -> None:
    world = World(eight(max_size=6), four(max_size=6))
    for number, (size, count, later) in enumerate(bursts):
        world.ask(named(pods(count, size), f"burst-{number}"))
        world.run(until=world.now + later + 1)
        world.leave(count // 2)
    world.waiting.clear()
    world.run(until=world.now + 1000.0)
    world.leave(10**6)
    world.run(until=world.now + 3 * DELAY)
    assert world.sizes == {"eight": 0, "four": 0}
    assert sum(count for _, _, count in world.creates) <= sum(count for _, count, _ in bursts)
