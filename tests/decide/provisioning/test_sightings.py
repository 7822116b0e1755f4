"""How long things have lasted, whatever the clock says meanwhile."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.preemption.fleets import key_of
from tests.decide.provisioning.pools import DELAY, a_provisioner
from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.provisioning.planner import FleetFacts, plan_fleet
from ullage.decide.provisioning.pool_nodes import REJOIN_SECONDS, pool_nodes
from ullage.decide.provisioning.pool_step import PoolStep, PoolStepKind
from ullage.decide.provisioning.purchase_state import LIST_MARGIN
from ullage.decide.provisioning.sightings import Sightings
from ullage.model.fact_event import Added, Deleted, Updated
from ullage.model.instance import Instance, InstanceState
from ullage.model.intents import TerminateInstance
from ullage.model.node import Taint
from ullage.model.pod import Pod
from ullage.model.pool_sighting import ListHorizon, Seen
from ullage.model.provisioner import DELETION_TAINT, PoolNode, template_node
from ullage.model.units import Instant, Seconds, Steady
from ullage.state.snapshot import ClusterSnapshot

POOL = a_provisioner()
HOUR = 3600.0
STALENESS = Seconds(30.0)
GRACE = STALENESS + LIST_MARGIN


class Watch:
    """A pool somebody watches. `skew` is how wrong the clock is; seconds go on whatever it says."""

    def __init__(self, *instances: Instance) -> None:
        self.snapshot = ClusterSnapshot()
        self.sightings = Sightings()
        self.instances = list(instances)
        self.steady = 0.0
        self.skew = 10 * HOUR
        self.listed_at: float | None = None
        """Time of the last list; None where it failed."""

    @property
    def now(self) -> float:
        return self.steady + self.skew

    def joins(self, name: str) -> None:
        node, report = template_node(POOL, name, now=Instant(self.now))
        for fact in (node, replace(report, reported_at=1e12)):
            self.snapshot.apply(Added(key_of(fact), fact))

    def is_deleted(self, name: str) -> None:
        node = self.snapshot.state.nodes[name]
        self.snapshot.apply(Deleted(key_of(node), node))

    def is_tainted(self, name: str) -> None:
        node = self.snapshot.state.nodes[name]
        taint = Taint(DELETION_TAINT, str(int(self.now + DELAY)), "NoSchedule")
        self.snapshot.apply(Updated(key_of(node), node, replace(node, taints=(taint,))))

    def changes(self, name: str, **facts: Any) -> None:
        node = self.snapshot.state.nodes[name]
        self.snapshot.apply(Updated(key_of(node), node, replace(node, **facts)))

    def lists(self) -> None:
        """The cloud is listed, now."""
        self.listed_at = self.steady

    def seen(self) -> Seen:
        lists = {}
        if self.listed_at is not None:
            lists["pool"] = ListHorizon(until=Steady(self.listed_at), staleness=STALENESS)
        return self.sightings.look(
            [POOL], self.instances, self.snapshot.state, now=Instant(self.now), steady=Steady(self.steady), lists=lists
        )

    def look(self, seconds: float = 0.0) -> list[PoolNode]:
        """The pool's nodes so many seconds later."""
        self.steady += seconds
        return list(pool_nodes(POOL, self.instances, self.snapshot, now=Instant(self.now), seen=self.seen()))

    def step(self, seconds: float = 0.0) -> PoolStepKind:
        return self.whole_step(seconds).kind

    def whole_step(self, seconds: float = 0.0) -> PoolStep:
        self.steady += seconds
        fleet = FleetFacts(provisioners=[POOL], instances=self.instances, seen=self.seen())
        pods: list[Pod] = []
        return plan_fleet(PlacementEngine(self.snapshot), fleet, pods, now=Instant(self.now)).pools["pool"].step


def a_machine(name: str = "a", since: float = 10 * HOUR) -> Instance:
    return Instance(id=f"i-{name}", pool="pool", since=Instant(since), node=name)


def states(nodes: list[PoolNode]) -> list[tuple[bool, bool, bool]]:
    return [(node.upcoming, node.departed, node.failed_to_register) for node in nodes]


def test_a_node_that_is_deleted_may_come_back_for_a_while() -> None:
    """Its machine is a week old: nothing about it is late."""
    watch = Watch(a_machine(since=-1e6))
    watch.joins("a")
    assert states(watch.look()) == [(False, False, False)]
    watch.is_deleted("a")
    assert states(watch.look(2)) == [(False, True, False)], "neither coming nor given up"
    assert states(watch.look(REJOIN_SECONDS - 1)) == [(False, True, False)]
    assert states(watch.look(2)) == [(False, True, True)]
    watch.joins("a")
    assert states(watch.look()) == [(False, False, False)], "and back it is"


def test_a_machine_that_is_watched_and_never_joins_is_no_departed_node() -> None:
    watch = Watch(a_machine())
    assert states(watch.look()) == [(True, False, False)]
    assert states(watch.look(POOL.thresholds.boot_deadline + 1)) == [(False, False, True)]


def test_after_a_restart_nobody_knows_what_an_old_machine_was() -> None:
    watch = Watch(a_machine(since=0.0))
    assert states(watch.look()) == [(False, True, False)]
    assert states(watch.look(REJOIN_SECONDS)) == [(False, True, True)]


def test_a_clock_that_jumps_gives_up_no_booting_machine() -> None:
    watch = Watch(a_machine())
    watch.look()
    watch.skew += HOUR
    assert states(watch.look(9)) == [(True, False, False)]
    watch.skew -= 2 * HOUR
    assert states(watch.look(POOL.thresholds.boot_deadline)) == [(False, False, True)], "and keeps none for ever"


def test_a_clock_that_jumps_deletes_no_doomed_node_early_or_late() -> None:
    watch = Watch(a_machine())
    watch.joins("a")
    watch.is_tainted("a")
    assert watch.step() is PoolStepKind.NO_ACTION
    watch.skew += HOUR
    assert watch.step(9) is PoolStepKind.NO_ACTION
    watch.skew -= 2 * HOUR
    assert watch.step(9) is PoolStepKind.NO_ACTION
    assert watch.step(DELAY) is PoolStepKind.TERMINATE_INSTANCE


def test_a_time_further_ahead_than_the_delay_was_written_by_a_wrong_clock() -> None:
    watch = Watch(a_machine())
    watch.joins("a")
    watch.skew += HOUR
    watch.is_tainted("a")
    watch.skew -= HOUR
    watch.look()
    assert watch.step(DELAY - 5) is PoolStepKind.NO_ACTION
    assert watch.step(10) is PoolStepKind.TERMINATE_INSTANCE


def given_back() -> Watch:
    """A crash came between the two deletions: the instance is gone, and its Node is there, tainted and due."""
    watch = Watch(a_machine())
    watch.joins("a")
    watch.is_tainted("a")
    watch.lists()
    watch.look()
    watch.steady += DELAY + 1
    watch.instances = []
    watch.changes("a", ready=False)
    return watch


def lists_for(watch: Watch, seconds: float) -> list[PoolStepKind]:
    """Steps of a pool whose cloud is listed every ten seconds."""
    found = []
    for _ in range(int(seconds / 10)):
        watch.lists()
        found.append(watch.step())
        watch.steady += 10
    watch.lists()
    return found


def test_a_node_whose_instance_was_given_back_goes_when_no_list_has_had_it_for_long_enough() -> None:
    watch = given_back()
    assert set(lists_for(watch, GRACE)) == {PoolStepKind.NO_ACTION}
    step = watch.whole_step()
    why = "its deletion time has passed, and the cloud has no instance of it any more"
    assert step.actions == (TerminateInstance(node="a", instance="", why=why, gone=True),)


def test_a_node_without_an_instance_is_room_for_nobody_and_says_when_it_goes() -> None:
    watch = given_back()
    watch.lists()
    (node,) = watch.look()
    assert (node.unlisted, node.upcoming, node.given_up_at) == (True, False, watch.now + GRACE)
    assert watch.whole_step().wake_at == watch.now + GRACE


def test_one_list_without_the_instance_is_no_proof_however_old_it_gets() -> None:
    watch = given_back()
    watch.lists()
    assert watch.step() is PoolStepKind.NO_ACTION
    assert watch.step(HOUR) is PoolStepKind.NO_ACTION


def test_a_list_that_fails_begins_the_grace_anew() -> None:
    watch = given_back()
    lists_for(watch, GRACE)
    watch.listed_at = None
    assert watch.step() is PoolStepKind.NO_ACTION
    assert set(lists_for(watch, GRACE)) == {PoolStepKind.NO_ACTION}
    assert watch.step() is PoolStepKind.TERMINATE_INSTANCE


@pytest.mark.parametrize("state", [InstanceState.RUNNING, InstanceState.STOPPING])
def test_an_instance_that_is_listed_in_between_begins_the_grace_anew(state: InstanceState) -> None:
    watch = given_back()
    lists_for(watch, GRACE)
    watch.instances = [replace(a_machine(), state=state)]
    watch.look()
    watch.instances = []
    assert set(lists_for(watch, GRACE)) == {PoolStepKind.NO_ACTION}
    assert watch.step() is PoolStepKind.TERMINATE_INSTANCE


def test_a_node_that_is_ready_has_a_machine_whatever_the_cloud_lists() -> None:
    """An empty list need not be true: the wrong account, say."""
    watch = given_back()
    watch.changes("a", ready=True)
    lists_for(watch, 2 * GRACE)
    assert watch.step() is PoolStepKind.NO_ACTION


def test_a_node_that_came_back_under_the_same_name_gets_a_grace_of_its_own() -> None:
    watch = given_back()
    lists_for(watch, GRACE)
    watch.changes("a", uid="another")
    assert watch.step() is PoolStepKind.NO_ACTION


def test_a_node_that_we_did_not_taint_is_left_to_its_owner() -> None:
    watch = given_back()
    watch.changes("a", taints=())
    lists_for(watch, 2 * GRACE)
    assert watch.step() is not PoolStepKind.TERMINATE_INSTANCE
