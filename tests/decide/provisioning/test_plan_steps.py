"""Plans of pools in steps: the same as at once, and the cluster may change between any two steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.decide.preemption.fleets import NOW, fleet, leased
from tests.decide.provisioning.pools import a_provisioner
from tests.decide.provisioning.test_demand import POOL, eight, pods
from tests.state.worlds import a_step, a_waiting
from ullage.decide.gang.placement import GangRequest
from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.provisioning.demand import find_demand, find_demand_in_steps
from ullage.decide.provisioning.node_offers import Pool
from ullage.decide.provisioning.pending import PodOrGang
from ullage.decide.provisioning.planner import FleetFacts, plan_fleet, plan_fleet_in_steps
from ullage.model import stepper
from ullage.model.fact_event import Deleted, ObjectKey
from ullage.model.instance import Instance
from ullage.model.stepper import finish
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot

NAMES = ("a", "b", "c")


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepper, "STEP", 0.0)


def facts() -> FleetFacts:
    return FleetFacts(
        provisioners=[eight()],
        instances=[Instance(id=f"i-{name}", pool="eight", since=Instant(0.0), node=name) for name in NAMES],
    )


def test_a_plan_in_steps_is_the_plan_and_frees_what_is_lifted_only_within_steps() -> None:
    engine, waiting = fleet(*(leased(name, 8, labels=POOL) for name in NAMES)), pods(40, 1)
    open_now: list[int] = []

    @contextmanager
    def lifted() -> Iterator[None]:
        open_now.append(1)
        try:
            yield
        finally:
            open_now.pop()

    steps = plan_fleet_in_steps(engine, facts(), waiting, now=NOW, lifted=lifted)
    count, found = 0, None
    try:
        next(steps)
        while True:
            count += 1
            assert not open_now
            steps.send(True)
    except StopIteration as done:
        found = done.value
    assert count > len(waiting)
    assert found == plan_fleet(engine, facts(), waiting, now=NOW)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_demand_in_steps_on_a_fork_is_the_demand(seed: int) -> None:
    rng, snapshot = Random(seed), ClusterSnapshot()
    for _ in range(60):
        snapshot.apply(a_step(rng, snapshot.state))
    engine = PlacementEngine(snapshot)
    waiting = [a_waiting(rng, f"new-{number}") for number in range(12)]
    copies = [replace(pod, key=ObjectKey("n", f"{pod.key.name}-{n}")) for pod in waiting[:3] for n in range(5)]
    gang = GangRequest(key=ObjectKey("n", "gang"), min_member=3, pending=tuple(waiting[9:]))
    pools = [Pool(provisioner=a_provisioner(name, zones=("z1", "z2"))) for name in ("x", "y")]
    turns: list[PodOrGang] = [*waiting[:9], *copies, gang]
    assert finish(find_demand_in_steps(engine.fork(), pools, turns, now=Instant(10.0))) == find_demand(
        engine, pools, turns, now=Instant(10.0)
    )


@pytest.mark.parametrize("after", [1, 40, 42, 44])
def test_a_node_may_go_between_two_steps(after: int) -> None:
    engine, waiting = fleet(*(leased(name, 8, labels=POOL) for name in NAMES)), pods(40, 1)
    steps = plan_fleet_in_steps(engine, facts(), waiting, now=NOW)
    next(steps)
    for _ in range(after - 1):
        steps.send(True)
    node = engine.snapshot.state.nodes["b"]
    engine.snapshot.apply(Deleted(ObjectKey("", "b"), node))
    try:
        while True:
            steps.send(True)
    except StopIteration as done:
        plan = done.value
    assert plan.demand.wanted["eight"].count in (2, 3)
