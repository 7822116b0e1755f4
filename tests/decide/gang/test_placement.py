"""Gangs: all or nothing, close together, and never in each other's way for long."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.decide.preemption.fleets import NOW, a_pod, columns_of, digest, fleet, leased
from ullage.decide.gang.attempts import ZONE
from ullage.decide.gang.placement import GangNoFit, GangPlacement, GangRequest, place_gang
from ullage.decide.gang.timeout import (
    EvictPartialGang,
    Fate,
    GangBackoff,
    GangBacksOff,
    GangComplete,
    GangKeepsTrying,
    GangProgress,
    gang_fate,
)
from ullage.decide.placement.engine import Placement, PlacementEngine, hold
from ullage.decide.placement.filters.codes import CODE
from ullage.model.claim import DeviceRequest, Exclusivity, TopologyMode
from ullage.model.device import MigInstance
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.units import Bytes, Instant
from ullage.model.verdict import ClusterEvent, Reason

SEEDS = st.integers(0, 2**32)


def a_gang(*sizes: int, need: int | None = None, name: str = "g", bound: Sequence[Pod] = ()) -> GangRequest:
    """Members that ask for so many GPUs each, all of which are needed unless said."""
    pending = tuple(a_pod(f"{name}-{place}", gpus=size) for place, size in enumerate(sizes))
    least = len(sizes) + len(bound) if need is None else need
    return GangRequest(key=ObjectKey("n", name), min_member=least, pending=pending, bound=tuple(bound))


def where(answer: GangPlacement | GangNoFit) -> str:
    """`a:0-1 b:0` says which members got which nodes; a refusal how many could be seated."""
    if isinstance(answer, GangNoFit):
        return f"{answer.placed} of {answer.needed}"
    names = sorted((placement.node, key.name.split("-")[1]) for key, placement in answer.placements.items())
    return " ".join(
        f"{node}:{'-'.join(m for n, m in names if n == node)}" for node in dict.fromkeys(n for n, _ in names)
    )


@pytest.mark.parametrize(
    ("nodes", "gang", "expected"),
    [
        pytest.param({"a": 4, "b": 4}, a_gang(4, 4), "a:0 b:1", id="one-on-each-node"),
        pytest.param({"a": 4, "b": 4}, a_gang(4, 4, 4), "2 of 3", id="one-too-many-and-nobody-is-seated"),
        pytest.param({"a": 4, "b": 4}, a_gang(4, 4, 4, need=2), "a:0 b:1", id="enough-are-seated-one-waits"),
        pytest.param({"a": 4, "b": 8, "c": 16}, a_gang(2, 2, 2), "b:0-1-2", id="the-tightest-node-that-holds-all"),
        pytest.param({"a": 2, "b": 2, "c": 4}, a_gang(1, 1, 1, 1, 1), "a:4 c:0-1-2-3", id="fewest-nodes"),
        pytest.param({"a": 4}, a_gang(1, 4, 1, need=2), "a:0-2", id="two-small-ones-instead-of-a-large-one"),
        pytest.param({"a": 6, "b": 4}, a_gang(3, 3, 2, 2), "a:0-1 b:2-3", id="unequal-members-fill-their-nodes"),
        pytest.param({"a": 9, "b": 7}, a_gang(4, 4, 3, 3, 2), "a:1-3-4 b:0-2", id="found-only-by-search"),
        pytest.param({}, a_gang(1), "0 of 1", id="no-nodes"),
        pytest.param({"a": 4}, a_gang(1, need=2), "1 of 2", id="a-member-is-missing"),
    ],
)
def test_seats(nodes: dict[str, int], gang: GangRequest, expected: str) -> None:
    engine = fleet(*(leased(name, size) for name, size in nodes.items()))
    assert where(place_gang(engine, gang, now=NOW)) == expected


def test_seats_are_held_from_now_on_and_no_gpu_is_given_twice() -> None:
    engine = fleet(leased("a", 4), leased("b", 4))
    answer = place_gang(engine, a_gang(2, 2, 2, 2), now=NOW)
    assert isinstance(answer, GangPlacement)
    held = [(pod.node, gpu) for pod in engine.snapshot.pods.values() for gpu in pod.gpu_ids]
    assert sorted(held) == [(node, gpu) for node in "ab" for gpu in range(4)]
    assert isinstance(place_gang(engine, a_gang(1, name="late"), now=NOW), GangNoFit)


def test_a_refusal_says_how_far_it_got_and_what_wakes_it() -> None:
    refusal = place_gang(fleet(leased("a", 4), leased("b", 4)), a_gang(3, 3, 3), now=NOW)
    assert isinstance(refusal, GangNoFit)
    assert refusal.wakes_on >= {ClusterEvent.POD_LEFT, ClusterEvent.NODE_APPEARED, ClusterEvent.GANG_CHANGED}
    assert str(refusal) == "gang n/g: places for 2 of the 3 it needs; then 0/2 nodes fit: 2 InsufficientResources"
    missing = place_gang(fleet(leased("a", 4)), a_gang(1, need=3), now=NOW)
    assert isinstance(missing, GangNoFit)
    assert missing.wakes_on == {ClusterEvent.GANG_CHANGED}
    assert missing.reasons == {Reason.GANG_INCOMPLETE: 1}
    assert str(missing) == "gang n/g: 1 of the 3 members it needs are there"


def test_members_that_are_bound_count_and_the_others_come_to_them() -> None:
    bound = a_pod("g-9", on="b", gpus=(0, 1))
    engine = fleet(leased("a", 2), leased("b", 4), bound)
    assert where(place_gang(engine, a_gang(2, need=2, bound=(bound,)), now=NOW)) == "b:0"
    assert where(place_gang(engine, a_gang(4, need=2, bound=(bound,)), now=NOW)) == "0 of 1"


def test_a_gang_that_is_whole_takes_those_who_come_late() -> None:
    bound = [a_pod(f"g-{gpu}", on="a", gpus=(gpu,)) for gpu in (8, 9)]
    engine = fleet(leased("a", 4), *(a_pod(f"g-{gpu}", on="a", gpus=(gpu - 8,)) for gpu in (8, 9)))
    assert where(place_gang(engine, a_gang(1, 1, 1, need=2, bound=bound), now=NOW)) == "a:0-1"


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        pytest.param({"a": "x", "b": "y", "c": "y"}, "b:0 c:1", id="the-zone-that-holds-all"),
        pytest.param({"a": "x", "b": "y", "c": "x"}, "a:0 c:1", id="the-other-one-if-that-does"),
        pytest.param({"a": "x", "b": "y", "c": "z"}, "a:0 b:1", id="no-zone-does"),
    ],
)
def test_members_stay_in_one_zone_if_they_can(zones: dict[str, str], expected: str) -> None:
    engine = fleet(*(leased(name, 4, labels={ZONE: zone}) for name, zone in zones.items()))
    assert where(place_gang(engine, a_gang(4, 4), now=NOW)) == expected


def test_every_member_gets_the_topology_it_asked_for() -> None:
    ask = DeviceRequest(topology=TopologyMode.REQUIRED)
    gang = GangRequest(
        key=ObjectKey("n", "g"), min_member=2, pending=tuple(a_pod(f"g-{n}", gpus=3, ask=ask) for n in range(2))
    )
    assert where(place_gang(fleet(leased("a", 2, 2, 2)), gang, now=NOW)) == "0 of 2"
    placements = place_gang(fleet(leased("a", 4, 4)), gang, now=NOW)
    assert isinstance(placements, GangPlacement)
    assert [placement.choice.ids for placement in placements.placements.values() if placement.choice] == [
        (0, 1, 2),
        (4, 5, 6),
    ]


def test_mig_instances_are_not_given_twice_within_a_gang() -> None:
    node, inventory = leased("a", 1)
    slices = tuple(MigInstance(f"MIG-{n}", "3g.40gb", Bytes(40 << 30)) for n in range(2))
    devices = tuple(structs.replace(device, mig=slices) for device in inventory.devices)
    engine = fleet(node, structs.replace(inventory, devices=devices))
    ask = DeviceRequest(exclusivity=Exclusivity.MIG, memory=Bytes(40 << 30))
    members = tuple(a_pod(f"g-{n}", gpus=1, ask=ask) for n in range(3))
    gang = GangRequest(key=ObjectKey("n", "g"), min_member=2, pending=members)
    answer = place_gang(engine, gang, now=NOW)
    assert isinstance(answer, GangPlacement)
    assert sorted(placement.uuids for placement in answer.placements.values()) == [("MIG-0",), ("MIG-1",)]


def test_closed_rows_take_nobody() -> None:
    engine = fleet(leased("a", 4), leased("b", 4))
    closed = np.zeros(2, np.uint8)
    closed[engine.snapshot.columns.rows["a"]] = CODE[Reason.QUOTA_EXCEEDED]
    assert where(place_gang(engine, a_gang(2, 2), now=NOW, closed=closed)) == "b:0-1"
    refusal = place_gang(engine, a_gang(2, name="more"), now=NOW, closed=closed)
    assert Reason.QUOTA_EXCEEDED in refusal.reasons if isinstance(refusal, GangNoFit) else False


@settings(max_examples=120, deadline=None)
@given(SEEDS)
def test_all_or_nothing_and_as_brute_force_says(seed: int) -> None:
    rng = Random(seed)
    sizes = {name: rng.randint(1, 6) for name in "abc"[: rng.randint(1, 3)]}
    engine = fleet(*(leased(name, size) for name, size in sizes.items()))
    asks = [rng.randint(1, 4) for _ in range(rng.randint(1, 5))]
    gang = a_gang(*asks, need=rng.randint(1, len(asks)))
    before, columns = digest(engine.snapshot), columns_of(engine.snapshot)
    answer = place_gang(engine, gang, now=NOW)
    most = most_seated(list(sizes.values()), asks)
    if isinstance(answer, GangNoFit):
        assert most < gang.needed
        assert digest(engine.snapshot) == before
        assert all(np.array_equal(*pair) for pair in zip(columns, columns_of(engine.snapshot), strict=True))
    else:
        assert gang.needed <= len(answer.placements) <= most
        assert {pod.key for pod in engine.snapshot.pods.values()} == set(answer.placements)
        taken = [(pod.node, gpu) for pod in engine.snapshot.pods.values() for gpu in pod.gpu_ids]
        assert (
            len(taken)
            == len(set(taken))
            == sum(size for place, size in enumerate(asks) if key(place) in answer.placements)
        )
    digest(engine.snapshot)


def key(place: int) -> ObjectKey:
    return ObjectKey("n", f"g-{place}")


def most_seated(nodes: list[int], asks: list[int]) -> int:
    """By trying every node, and none, for every member."""
    best = 0
    for choice in product(range(-1, len(nodes)), repeat=len(asks)):
        used = [sum(ask for ask, node in zip(asks, choice, strict=True) if node == at) for at in range(len(nodes))]
        if all(amount <= room for amount, room in zip(used, nodes, strict=True)):
            best = max(best, sum(node >= 0 for node in choice))
    return best


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_the_order_in_which_members_and_nodes_are_heard_of_does_not_matter(seed: int) -> None:
    rng = Random(seed)
    nodes = [leased(name, rng.randint(1, 6)) for name in "abcd"]
    gang = a_gang(*(rng.randint(1, 4) for _ in range(4)), need=rng.randint(1, 4))
    answers = set()
    for _ in range(3):
        rng.shuffle(nodes)
        mixed = replace(gang, pending=tuple(rng.sample(gang.pending, 4)))
        answer = place_gang(fleet(*nodes), mixed, now=NOW)
        answers.add(where(answer))
    assert len(answers) == 1


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_two_gangs_and_small_work_in_any_order_never_deadlock(seed: int) -> None:
    """Whoever is asked, whenever: a gang is there whole or not at all, and while anything fits something is seated."""
    rng = Random(seed)
    engine = fleet(*(leased(name, 4) for name in "ab"))
    gangs = {name: a_gang(*[rng.choice((2, 4))] * 2, name=name) for name in ("g", "h")}
    waiting: dict[str, Callable[[], bool]] = {name: partial(place_all, engine, gang) for name, gang in gangs.items()}
    for number in range(3):
        waiting[f"s{number}"] = partial(place_one, engine, a_pod(f"s{number}", gpus=rng.choice((1, 2))))
    running: list[str] = []
    for _ in range(40):
        if not waiting:
            break
        name = rng.choice(sorted(waiting))
        if waiting[name]():
            del waiting[name]
            running.append(name)
        for gang_name, gang in gangs.items():
            placed = sum(pod.key in engine.snapshot.pods for pod in gang.pending)
            assert placed in (0, 2), f"{gang_name} holds part of what it needs"
        if running and rng.random() < 0.4:
            finish(engine, gangs, running.pop(rng.randrange(len(running))))
    for name in running:
        finish(engine, gangs, name)
    for left in sorted(waiting):
        assert waiting[left](), "the cluster is empty, so whoever waits gets a seat at once"
        finish(engine, gangs, left)


def place_all(engine: PlacementEngine, gang: GangRequest) -> bool:
    return isinstance(place_gang(engine, gang, now=NOW), GangPlacement)


def place_one(engine: PlacementEngine, pod: Pod) -> bool:
    answer = engine.place(pod, now=NOW)
    if isinstance(answer, Placement):
        hold(engine.snapshot, pod, answer)
    return isinstance(answer, Placement)


def finish(engine: PlacementEngine, gangs: dict[str, GangRequest], name: str) -> None:
    members = [pod.key for pod in gangs[name].pending] if name in gangs else [ObjectKey("n", name)]
    for member in members:
        engine.snapshot.forget(member)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_of_gangs_that_compete_one_always_gets_in(order: tuple[int, ...]) -> None:
    engine = fleet(leased("a", 4), leased("b", 4))
    gangs = [a_gang(4, 4, name=f"g{n}") for n in range(3)]
    answers = [isinstance(place_gang(engine, gangs[n], now=NOW), GangPlacement) for n in order]
    assert answers == [True, False, False]


def facts(**more: float) -> GangProgress:
    plain = {"min_member": 4, "bound": 0, "waiting_since": 100.0, "timeout": 60.0}
    return GangProgress(**{**plain, **more})  # type: ignore[arg-type]  # counts are ints, moments floats


@pytest.mark.parametrize(
    ("gang", "now", "expected"),
    [
        pytest.param(facts(bound=4), 999.0, GangComplete(), id="enough-are-bound"),
        pytest.param(
            facts(), 100.0, GangKeepsTrying(Instant(160.0), "waiting for places, holding none"), id="it-has-just-come"
        ),
        pytest.param(
            facts(), 159.9, GangKeepsTrying(Instant(160.0), "waiting for places, holding none"), id="not-yet-over"
        ),
        pytest.param(
            facts(),
            160.0,
            GangBacksOff(Instant(170.0), "no places for 4 within 60 s: back in 10 s"),
            id="it-stands-back-for-a-while",
        ),
        pytest.param(
            facts(given_up=2),
            160.0,
            GangBacksOff(Instant(200.0), "no places for 4 within 60 s: back in 40 s"),
            id="longer-each-time",
        ),
        pytest.param(
            facts(given_up=50),
            160.0,
            GangBacksOff(Instant(460.0), "no places for 4 within 60 s: back in 300 s"),
            id="not-for-ever",
        ),
        pytest.param(
            facts(bound=1, partly_since=150.0),
            160.0,
            GangKeepsTrying(Instant(210.0), "1 of 4 members are bound, the rest may still come"),
            id="bound-in-part-it-may-complete",
        ),
        pytest.param(
            facts(bound=3, partly_since=150.0),
            210.0,
            EvictPartialGang("3 of 4 members are bound after 60 s"),
            id="bound-in-part-for-too-long",
        ),
        pytest.param(
            facts(bound=1), 160.0, EvictPartialGang("1 of 4 members are bound after 60 s"), id="since-we-know-not-when"
        ),
    ],
)
def test_the_fate_of_a_gang(gang: GangProgress, now: float, expected: Fate) -> None:
    assert gang_fate(gang, now=Instant(now)) == expected


@given(st.integers(0, 40), st.floats(0.1, 10_000))
def test_a_gang_tries_for_no_longer_than_its_timeout_before_others_have_their_turn(
    given_up: int, timeout: float
) -> None:
    gang = facts(given_up=given_up, timeout=timeout)
    fate = gang_fate(gang, now=Instant(100.0))
    assert isinstance(fate, GangKeepsTrying)
    assert fate.until == 100.0 + timeout
    over = gang_fate(gang, now=fate.until)
    assert isinstance(over, GangBacksOff)
    assert GangBackoff().first_backoff <= over.again_at - fate.until <= GangBackoff().longest_backoff * 1.001
