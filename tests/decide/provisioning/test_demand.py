"""Demand: net of what is there and comes, by the scheduler's own rules, from the best provisioner."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.preemption.fleets import H100, NOW, a_node, a_pod, an_inventory, digest, fleet, leased
from tests.decide.provisioning.pools import a_provisioner
from ullage.decide.gang.placement import GangRequest
from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.provisioning.demand import FleetDemand, find_demand
from ullage.decide.provisioning.node_offers import Pool, ScaleUpBlocked
from ullage.decide.provisioning.pending import PodOrGang
from ullage.decide.provisioning.planner import FleetFacts, plan_fleet
from ullage.decide.provisioning.pool_nodes import AssumedUse, pool_nodes
from ullage.decide.provisioning.pool_step import PoolStepKind
from ullage.model.admission import LEASED_TAINT
from ullage.model.claim import DeviceRequest, TopologyMode
from ullage.model.fact_event import ObjectKey
from ullage.model.instance import Instance, InstanceState
from ullage.model.node import Node, Taint
from ullage.model.pod import Owner, Pod
from ullage.model.provisioner import (
    DELETION_TAINT,
    PROVISIONER_LABEL,
    ZONE_LABEL,
    AwaitedInstance,
    BackOff,
    CloudFailure,
    FleetBudget,
    GpuTemplate,
    Provisioner,
    Purchase,
)
from ullage.model.quota import Quota, QuotaLimits
from ullage.model.resources import GPU
from ullage.model.shape import Shape
from ullage.model.shape_terms import Toleration
from ullage.model.units import Bytes, Instant, Micros, Milli
from ullage.model.verdict import Reason

ROOM = {"cpu": 64_000, "memory": 10**12}
POOL = {PROVISIONER_LABEL: "eight"}


def gpus(count: int, model: str = H100, islands: int = 1) -> GpuTemplate:
    return GpuTemplate(model=model, count=count, memory=Bytes(80 << 30), islands=islands, bandwidth=450)


def eight(**said: Any) -> Provisioner:
    return a_provisioner("eight", **({"gpus": gpus(8), "resources": ROOM} | said))


def four(**said: Any) -> Provisioner:
    return a_provisioner("four", **({"gpus": gpus(4), "resources": ROOM} | said))


def made(at: float, name: str, count: int, **facts: Any) -> Node:
    """A node of the pool, made at this time, that advertises so many GPUs."""
    return replace(a_node(name, count, labels=POOL, **facts), created=at)


def marked_for_deletion(name: str) -> tuple[Any, ...]:
    return leased(name, 8, labels=POOL, taints=(Taint(DELETION_TAINT, "2000", "NoSchedule"),))


def pods(count: int, size: int, **facts: Any) -> list[Pod]:
    return [a_pod(f"p{size}-{place:03}", gpus=size, **facts) for place in range(count)]


def demand(
    picture: PlacementEngine,
    waiting: Sequence[PodOrGang],
    *provisioners: Provisioner,
    instances: tuple[Instance, ...] = (),
    budget: FleetBudget = FleetBudget(),  # noqa: B008 - frozen
) -> FleetDemand:
    """What is found; and nothing is left behind."""
    snapshot = picture.snapshot
    pools = [Pool(provisioner=one, nodes=pool_nodes(one, instances, snapshot, now=NOW)) for one in provisioners]
    before = digest(snapshot)
    found = find_demand(picture, pools, waiting, now=NOW, budget=budget)
    assert digest(snapshot) == before
    return found


def bought(found: FleetDemand) -> dict[str, int]:
    return {name: wanted.count for name, wanted in found.wanted.items()}


def test_pods_fill_new_nodes() -> None:
    found = demand(fleet(), pods(17, 1), eight())
    assert (bought(found), found.unmet) == ({"eight": 3}, {})
    assert set(found.chosen.values()) == {"eight"}


def test_what_fits_on_idle_nodes_buys_nothing() -> None:
    found = demand(fleet(leased("a", 8, labels=POOL)), pods(9, 1), eight())
    assert bought(found) == {"eight": 1}
    assert found.assumed == {"a": AssumedUse(milli=Milli(8000), pods=8)}


@pytest.mark.parametrize(
    ("facts", "instances", "status"),
    [
        pytest.param((), (Instance(id="i-1", pool="eight", since=NOW),), {}, id="an-instance-without-a-node"),
        pytest.param(
            (made(NOW, "n", 0),),
            (Instance(id="i-1", pool="eight", since=NOW, node="n"),),
            {},
            id="a-ready-node-without-its-gpus",
        ),
        pytest.param((made(NOW, "n", 8, ready=False),), (), {}, id="a-node-that-is-not-ready-yet"),
        pytest.param(
            (), (), {"awaited": (AwaitedInstance(instance="i-1", since=NOW),)}, id="an-instance-that-is-not-listed"
        ),
        pytest.param(
            (),
            (),
            {"purchase": Purchase(serial=0, count=1, since=NOW), "purchases": 1},
            id="a-purchase-whose-answer-was-lost",
        ),
        pytest.param(
            (),
            (Instance(id="i-1", pool="eight", since=NOW, token="ullage-uid-eight-0"),),
            {"purchase": Purchase(serial=0, count=1, since=NOW), "purchases": 1},
            id="the-same-when-its-instance-is-listed",
        ),
    ],
)
def test_what_is_coming_is_not_bought_again(
    facts: tuple[Any, ...], instances: tuple[Instance, ...], status: dict[str, Any]
) -> None:
    found = demand(fleet(*facts), pods(9, 1), eight(**status), instances=instances)
    assert bought(found) == {"eight": 1}
    assert [taken.pods for taken in found.assumed.values()] == [8]


@pytest.mark.parametrize(
    ("instance", "count"),
    [
        pytest.param(Instance(id="i", pool="eight", since=Instant(NOW - 901)), 1, id="never-joined"),
        pytest.param(Instance(id="i", pool="eight", since=NOW, state=InstanceState.STOPPING), 1, id="going"),
        pytest.param(Instance(id="i", pool="other", since=NOW), 1, id="of-another-pool"),
        pytest.param(Instance(id="i", pool="eight", since=Instant(NOW - 899)), 0, id="in-time"),
    ],
)
def test_which_instances_will_become_nodes(instance: Instance, count: int) -> None:
    found = demand(fleet(), pods(1, 8), eight(), instances=(instance,))
    assert sum(bought(found).values()) == count


def test_doomed_nodes_are_used_before_anything_is_bought_and_after_all_others() -> None:
    picture = fleet(leased("idle", 8, labels=POOL), marked_for_deletion("d1"), marked_for_deletion("d2"))
    machines = tuple(Instance(id=one, pool="eight", since=NOW, node=one) for one in ("d1", "d2"))
    found = demand(picture, pods(9, 1), eight(), instances=machines)
    assert (bought(found), sorted(taken.pods for taken in found.assumed.values())) == ({}, [1, 8])
    assert found.assumed["idle"].pods == 8
    assert bought(demand(picture, pods(25, 1), eight(), instances=machines)) == {"eight": 1}


def test_a_doomed_node_whose_machine_is_gone_is_no_room() -> None:
    found = demand(fleet(marked_for_deletion("d1")), pods(1, 1), eight())
    assert (bought(found), found.assumed) == ({"eight": 1}, {})


@pytest.mark.parametrize(
    ("waiting", "pools", "expected"),
    [
        pytest.param(pods(1, 3), (eight(), four()), {"four": 1}, id="fewest-gpus-left-idle"),
        pytest.param(pods(2, 4), (eight(price=9), four(price=5)), {"eight": 1}, id="then-the-lowest-price"),
        pytest.param(pods(2, 4), (eight(price=9), four()), {"eight": 1}, id="no-price-is-the-highest"),
        pytest.param(pods(2, 4), (eight(price=8), four(price=4)), {"eight": 1}, id="then-the-name"),
        pytest.param(pods(1, 8), (eight(price=9), four(price=1)), {"eight": 1}, id="only-what-fits"),
        pytest.param(
            pods(3, 4), (four(max_size=1), eight()), {"eight": 1, "four": 1}, id="in-several-pools-if-fewer-are-idle"
        ),
        pytest.param(
            pods(5, 4), (four(max_size=1), eight(max_size=2)), {"eight": 2, "four": 1}, id="the-rest-falls-through"
        ),
        pytest.param(
            pods(1, 4),
            (four(back_off=BackOff(failure=CloudFailure.CAPACITY, failures=1, until=Instant(NOW + 1))), eight()),
            {"eight": 1},
            id="backed-off-falls-through",
        ),
        pytest.param(pods(1, 4), (four(paused=True), eight()), {"eight": 1}, id="paused-falls-through"),
        pytest.param(pods(1, 4), (four(recommend_only=True), eight()), {"eight": 1}, id="advice-falls-through"),
        pytest.param(pods(1, 4), (four(recommend_only=True),), {"four": 1}, id="but-is-given-if-nobody-else-serves"),
        pytest.param([*pods(1, 8), *pods(4, 1)], (eight(), four()), {"eight": 1, "four": 1}, id="by-shape"),
        pytest.param([*pods(1, 6), *pods(2, 1)], (eight(),), {"eight": 1}, id="leftovers-serve-other-shapes"),
        pytest.param([a_pod("cpu", cpu=1000)], (eight(),), {}, id="no-gpu-is-bought-for-who-needs-none"),
        pytest.param([], (eight(min_size=2),), {"eight": 2}, id="the-minimum"),
        pytest.param(pods(9, 1), (eight(min_size=2),), {"eight": 2}, id="the-minimum-serves-demand"),
        pytest.param(pods(2, 4, cpu=40_000), (eight(),), {"eight": 2}, id="all-resources-count"),
    ],
)
def test_the_best_provisioner(
    waiting: Sequence[PodOrGang], pools: tuple[Provisioner, ...], expected: dict[str, int]
) -> None:
    assert bought(demand(fleet(), waiting, *pools)) == expected


@pytest.mark.parametrize(
    ("budget", "expected", "why"),
    [
        pytest.param(FleetBudget(gpus=24), {"eight": 2}, ScaleUpBlocked.OVER_BUDGET, id="gpus"),
        pytest.param(FleetBudget(gpus=23), {"eight": 1}, ScaleUpBlocked.OVER_BUDGET, id="gpus-that-would-be-passed"),
        pytest.param(FleetBudget(price=Micros(20)), {"eight": 1}, ScaleUpBlocked.OVER_BUDGET, id="price"),
        pytest.param(FleetBudget(), {"eight": 3}, ScaleUpBlocked.FULL, id="none-but-the-maximum"),
    ],
)
def test_a_budget_is_never_passed(budget: FleetBudget, expected: dict[str, int], why: ScaleUpBlocked) -> None:
    picture = fleet(leased("a", 8, labels=POOL), a_pod("old", on="a", gpus=range(8)))
    found = demand(picture, pods(5, 8), eight(price=10, max_size=4), budget=budget)
    assert bought(found) == expected
    assert {refused for refusals in found.unmet.values() for refused in refusals.values()} == {why}
    assert len(found.unmet) == 5 - sum(expected.values())


def test_the_minimum_is_within_the_budget_too() -> None:
    assert bought(demand(fleet(), [], eight(min_size=3), budget=FleetBudget(gpus=16))) == {"eight": 2}


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(a_pod("p", gpus=9), Reason.NODE_TOO_SMALL, id="more-than-a-node-has"),
        pytest.param(
            a_pod("p", gpus=1, ask=DeviceRequest(model="A100")), Reason.GPU_MODEL_MISMATCH, id="another-model"
        ),
        pytest.param(
            a_pod("p", gpus=8, ask=DeviceRequest(topology=TopologyMode.REQUIRED)),
            Reason.NO_ISLAND_LARGE_ENOUGH,
            id="an-island-it-does-not-have",
        ),
        pytest.param(
            a_pod("p", gpus=1, shape=Shape(node_selector=(("disk", "fast"),))),
            Reason.NODE_SELECTOR_MISMATCH,
            id="a-label-it-does-not-have",
        ),
        pytest.param(a_pod("p", gpus=1), Reason.TAINT_NOT_TOLERATED, id="a-taint"),
    ],
)
def test_nothing_is_bought_that_would_not_help(pod: Any, reason: Reason) -> None:
    tainted = reason is Reason.TAINT_NOT_TOLERATED
    pool = eight(gpus=gpus(8, islands=2), taints=(Taint("team", "a", "NoSchedule"),) if tainted else ())
    found = demand(fleet(), [pod], pool)
    assert (bought(found), found.unmet) == ({}, {pod.key: {"eight": reason}})


def test_required_affinity_and_taints_choose_the_provisioner() -> None:
    shape = Shape(node_selector=(("tier", "gold"),), tolerations=(Toleration(key="team", value="a"),))
    gold = a_provisioner("gold", gpus=gpus(8), resources=ROOM, labels={"tier": "gold"})
    guarded = a_provisioner(
        "guarded", gpus=gpus(8), resources=ROOM, labels={"tier": "gold"}, taints=(Taint("other", "", "NoSchedule"),)
    )
    found = demand(fleet(), [a_pod("p", gpus=1, shape=shape)], eight(), guarded, gold)
    assert bought(found) == {"gold": 1}


@pytest.mark.parametrize(
    ("tolerations", "labels", "expected"),
    [
        pytest.param((), POOL, {}, id="a pod without a claim would not be let on it"),
        pytest.param((), {}, {}, id="nor where the pool is empty and nodes of others have the taint"),
        pytest.param((Toleration(key=LEASED_TAINT, exists=True),), POOL, {"eight": 1}, id="a pod with a claim would"),
    ],
)
def test_a_new_node_will_have_the_taint_that_agents_put_on_those_that_are_there(
    tolerations: tuple[Toleration, ...], labels: dict[str, str], expected: dict[str, int]
) -> None:
    kept_off = (Taint(LEASED_TAINT, "true", "NoSchedule"),)
    there = fleet(leased("a", 8, labels=labels, taints=kept_off), a_pod("first", on="a", gpus=range(8)))
    found = demand(there, pods(1, 8, shape=Shape(tolerations=tolerations)), eight())
    assert bought(found) == expected


@pytest.mark.parametrize("recorded", ["eight", "four"])
def test_the_taint_of_agents_is_known_where_no_leased_node_is_left(recorded: str) -> None:
    """Recorded of this pool, or of another, while it had nodes."""
    pools = [replace(pool, agent_taint=pool.name == recorded) for pool in (eight(), four())]
    assert bought(demand(fleet(), pods(1, 4), *pools)) == {}
    tolerant = pods(1, 4, shape=Shape(tolerations=(Toleration(key=LEASED_TAINT, exists=True),)))
    assert bought(demand(fleet(), tolerant, *pools))


def test_a_zone_is_named_only_where_a_pod_looks_at_it() -> None:
    pool = eight(zones=("a", "b"))
    pinned = a_pod("p", gpus=8, shape=Shape(node_selector=((ZONE_LABEL, "b"),)))
    found = demand(fleet(), [pinned, *pods(1, 8)], pool)
    assert found.wanted["eight"].by_zone == {"b": 1, "": 1}


def test_a_quota_refusal_buys_nothing() -> None:
    quota = Quota(key=ObjectKey("n", "q"), uid="q", generation=1, limits=QuotaLimits(gpus=8))
    found = demand(fleet(quota), pods(2, 8), eight())
    assert bought(found) == {"eight": 1}
    assert list(found.unmet.values()) == [{"eight": Reason.QUOTA_EXCEEDED}]


def a_gang(members: int, size: int, need: int | None = None) -> GangRequest:
    pending = tuple(a_pod(f"g-{place}", gpus=size, created=50.0 - place) for place in range(members))
    return GangRequest(key=ObjectKey("n", "g"), min_member=need or members, pending=pending)


@pytest.mark.parametrize(
    ("gang", "pools", "expected"),
    [
        pytest.param(a_gang(4, 8), (eight(),), {"eight": 4}, id="all-of-it"),
        pytest.param(a_gang(4, 4), (eight(),), {"eight": 2}, id="packed"),
        pytest.param(a_gang(4, 8), (eight(max_size=3),), {}, id="or-nothing"),
        pytest.param(a_gang(4, 8, need=3), (eight(max_size=3),), {"eight": 3}, id="enough-of-it"),
        pytest.param(a_gang(4, 4), (eight(max_size=1), four()), {"four": 4}, id="in-one-pool-if-one-can"),
        pytest.param(
            a_gang(4, 4), (eight(max_size=1), four(max_size=2)), {"eight": 1, "four": 2}, id="else-in-several"
        ),
    ],
)
def test_gangs_are_bought_for_whole_or_not_at_all(
    gang: GangRequest, pools: tuple[Provisioner, ...], expected: dict[str, int]
) -> None:
    found = demand(fleet(), [gang], *pools)
    assert bought(found) == expected
    assert len(found.unmet) == (0 if expected else len(gang.pending))
    for name, wanted in found.wanted.items():
        assert wanted.for_gangs == {"": expected[name]}


def test_a_gang_uses_what_is_idle_first() -> None:
    found = demand(fleet(leased("a", 8, labels=POOL)), [a_gang(3, 8)], eight())
    assert bought(found) == {"eight": 2}
    assert found.wanted["eight"].oldest in {48.0, 49.0}


def test_a_node_with_only_daemons_on_it_is_empty_and_one_with_anything_else_is_not() -> None:
    daemon = a_pod("d", on="a", cpu=100, owner=Owner("DaemonSet", "d", "d"))
    web = a_pod("w", on="b", cpu=100)
    job = a_pod("j", on="c", gpus=(0, 1))
    picture = fleet(*(leased(name, 8, labels=POOL) for name in "abc"), daemon, web, job)
    found = pool_nodes(eight(), (), picture.snapshot, now=NOW, protected=frozenset("b"))
    assert [(node.name, node.empty, node.used, node.protected) for node in found] == [
        ("a", True, 0, False),
        ("b", False, 0, True),
        ("c", False, 2000, False),
    ]


def test_a_taint_nobody_can_read_is_never_due() -> None:
    node = a_node("a", 8, labels=POOL, taints=(Taint(DELETION_TAINT, "soon", "NoSchedule"),))
    (found,) = pool_nodes(eight(), (), fleet(node, an_inventory("a", 8)).snapshot, now=NOW)
    assert found.delete_after == float("inf")


def test_gpus_that_never_appear_are_lost_once_nothing_runs_there() -> None:
    late = made(NOW - 901, "a", 0)
    picture = fleet(replace(late, name="b"), late, a_pod("p", on="b", cpu=1))
    found = pool_nodes(
        eight(), (Instance(id="i-a", pool="eight", since=Instant(0.0), node="a"),), picture.snapshot, now=NOW
    )
    assert [(node.name, node.instance, node.failed_to_register, node.capacity) for node in found] == [
        ("a", "i-a", True, 8000),
        ("b", "", False, 8000),
    ]
    assert GPU in a_node("x", 8).allocatable, "these nodes advertise what they have"


def test_pods_of_all_shapes_share_new_nodes() -> None:
    found = demand(fleet(), [*pods(4, 1), *pods(4, 2), *pods(4, 3)], eight())
    assert (bought(found), found.unmet) == ({"eight": 3}, {})


@pytest.mark.parametrize(
    ("limit", "served"),
    [
        pytest.param(1, {"vip"}, id="where-there-is-not-enough-for-all"),
        pytest.param(2, {"vip", "small-0", "small-1", "small-2", "small-3"}, id="not-where-there-is"),
    ],
)
def test_priorities_come_first(limit: int, served: set[str]) -> None:
    small = [a_pod(f"small-{place}", gpus=2) for place in range(4)]
    found = demand(fleet(), [a_pod("vip", gpus=8, priority=10), *small], eight(max_size=limit))
    assert {key.name for key in found.chosen} == served
    assert {key.name for key in found.unmet} == {"vip", *(pod.key.name for pod in small)} - served
    assert bought(found) == {"eight": limit}


def test_lower_priorities_use_what_higher_ones_leave() -> None:
    waiting = [a_pod("vip", gpus=5, priority=10), a_pod("low", gpus=3), a_pod("large", gpus=8)]
    found = demand(fleet(), waiting, eight(max_size=1))
    assert ({key.name for key in found.chosen}, {key.name for key in found.unmet}) == ({"vip", "low"}, {"large"})


def test_a_pod_that_no_pool_could_serve_changes_nothing_for_others() -> None:
    waiting = [a_pod("huge", gpus=9, priority=10), *pods(4, 1), *pods(4, 2), *pods(4, 3)]
    found = demand(fleet(), waiting, eight())
    assert (bought(found), {key.name for key in found.unmet}) == ({"eight": 3}, {"huge"})


def test_islands_count_where_pods_are_packed() -> None:
    ask = DeviceRequest(topology=TopologyMode.REQUIRED)
    found = demand(fleet(), [*pods(4, 3, ask=ask), *pods(4, 2, ask=ask)], eight(gpus=gpus(8, islands=2)))
    assert (bought(found), found.unmet) == ({"eight": 3}, {}), "two pods of three leave no island for one of two"


def test_a_pod_made_in_the_future_is_bought_for_at_once() -> None:
    """By a clock that is behind it would wait for its batch again at every moment there is."""
    pool = eight(scale_up_batch=5.0)
    plan = plan_fleet(fleet(), FleetFacts(provisioners=[pool]), pods(1, 8, created=NOW + 1e9), now=NOW)
    assert plan.pools["eight"].step.kind is PoolStepKind.SCALE_UP
    soon = plan_fleet(fleet(), FleetFacts(provisioners=[pool]), pods(1, 8, created=NOW + 1), now=NOW)
    assert soon.pools["eight"].step.wake_at == NOW + 6.0, "clocks differ a little"
