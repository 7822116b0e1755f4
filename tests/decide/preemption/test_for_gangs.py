"""Preemption for a whole gang: enough victims for all it needs, or none."""

from collections.abc import Sequence
from itertools import chain, combinations
from random import Random

import numpy as np
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.decide.preemption.fleets import NOW, a_budget, a_pod, digest, fleet, leased
from ullage.decide.gang.placement import GangPlacement, GangRequest, place_gang
from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.placement.filters.codes import CODE, FITS
from ullage.decide.preemption.for_gangs import preempt_for_gang
from ullage.decide.preemption.preempt import NoPreemption
from ullage.decide.preemption.protection import BoundGang, PreemptionContext
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.verdict import Reason
from ullage.state.cluster import Fact

ALONE = PreemptionContext()


def a_gang(*sizes: int, priority: int = 10, need: int | None = None) -> GangRequest:
    pending = tuple(a_pod(f"g{place}", gpus=size, priority=priority) for place, size in enumerate(sizes))
    least = len(sizes) if need is None else need
    return GangRequest(key=ObjectKey("n", "g"), min_member=least, pending=pending)


def answer(engine: PlacementEngine, gang: GangRequest, around: PreemptionContext = ALONE) -> str:
    """`g0@a: p, g1@b:` says which node each member gets and who goes for it; or why nobody does."""
    before = digest(engine.snapshot)
    found = preempt_for_gang(engine, gang, around, now=NOW)
    assert digest(engine.snapshot) == before
    if isinstance(found, NoPreemption):
        return found.reason.value
    return ", ".join(
        f"{one.pod.name}@{one.node}:" + "".join(f" {victim.pod.name}" for victim in one.victims) for one in found
    )


def full(**levels: int) -> list[Fact | tuple[Fact, ...]]:
    """Nodes of two GPUs, each held by one pod of this priority; 99 leaves a node free."""
    pods = [a_pod(f"p{node}", on=node, gpus=(0, 1), priority=level) for node, level in levels.items() if level != 99]
    return [*(leased(node, 2) for node in levels), *pods]


@pytest.mark.parametrize(
    ("levels", "gang", "expected"),
    [
        pytest.param({"a": 1, "b": 2}, a_gang(2, 2), "g0@a: pa, g1@b: pb", id="a-node-for-each"),
        pytest.param({"a": 1, "b": 2}, a_gang(1, 1), "g0@a: pa, g1@a:", id="one-victim-for-both"),
        pytest.param({"a": 99, "b": 2}, a_gang(2, 2), "g0@a:, g1@b: pb", id="free-room-first"),
        pytest.param({"a": 1, "b": 10}, a_gang(2, 2), "NotEnoughLower", id="nobody-goes-if-not-all-can-come"),
        pytest.param({"a": 1, "b": 10}, a_gang(2, 2, need=1), "g0@a: pa", id="no-more-than-are-needed"),
        pytest.param({"a": 1, "b": 1}, a_gang(2, need=2), "GangIncomplete", id="a-member-is-missing"),
    ],
)
def test_for_a_gang(levels: dict[str, int], gang: GangRequest, expected: str) -> None:
    assert answer(fleet(*full(**levels)), gang) == expected


def test_members_together_keep_to_a_budget() -> None:
    facts = [structs.replace(fact, labels={"app": "x"}) if isinstance(fact, Pod) else fact for fact in full(a=1, b=2)]
    assert answer(fleet(*facts, a_budget("b", "x", 1)), a_gang(2, 2)) == "Protected"
    assert answer(fleet(*facts, a_budget("b", "x", 2)), a_gang(2, 2)) == "g0@a: pa, g1@b: pb"


def test_room_made_for_others_is_left_to_them() -> None:
    nominated = a_pod("first", gpus=2, priority=10, nominated="a")
    around = PreemptionContext(nominated=(nominated,))
    assert answer(fleet(*full(a=99, b=1)), a_gang(2), around) == "g0@b: pb"
    assert answer(fleet(*full(a=99, b=1)), a_gang(2, priority=11), around) == "g0@a:"


def shut(engine: PlacementEngine, *nodes: str) -> PreemptionContext:
    """A context in which the quota of the gang's namespace closes these nodes."""
    columns = engine.snapshot.columns
    closed = np.full(columns.size, FITS, dtype=np.uint8)
    closed[[columns.rows[node] for node in nodes]] = CODE[Reason.QUOTA_EXCEEDED]
    return PreemptionContext(closed=closed)


def test_a_node_that_the_quota_closes_is_no_room_for_the_gang() -> None:
    engine = fleet(*full(a=99, b=1))
    assert answer(engine, a_gang(2), shut(engine, "a")) == "g0@b: pb"


def test_no_victim_is_spared_for_room_that_the_quota_closes() -> None:
    nodes = [leased("a", 2), leased("b", 2), leased("c", 4)]
    engine = fleet(*nodes, *(a_pod(f"p{node}", on=node, gpus=(0, 1), priority=1) for node in "ab"))
    assert answer(engine, a_gang(2, 2), shut(engine, "c")) == "g0@a: pa, g1@b: pb"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_once_the_victims_are_gone_the_gang_fits_and_before_it_does_not(seed: int) -> None:
    rng = Random(seed)
    pods = [
        a_pod(f"{node}{gpu}", on=node, gpus=(gpu,), priority=rng.randint(0, 9), labels={"app": rng.choice("xz")})
        for node in "abc"
        for gpu in range(4)
        if rng.random() < 0.9
    ]
    budgets = [a_budget("x", "x", rng.randint(0, 3))] if rng.random() < 0.5 else []
    engine = fleet(*(leased(node, 2, 2) for node in "abc"), *pods, *budgets)
    gang = a_gang(*(rng.randint(1, 4) for _ in range(3)), priority=rng.randint(3, 12), need=rng.randint(1, 3))
    found = preempt_for_gang(engine, gang, ALONE, now=NOW)
    event("refused" if isinstance(found, NoPreemption) else f"{min(sum(len(one.victims) for one in found), 4)} victims")
    if isinstance(found, NoPreemption):
        return
    victims = [victim for one in found for victim in one.victims]
    assert all(victim.priority < gang.pending[0].priority for victim in victims)
    assert len({victim.pod for victim in victims}) == len(victims)
    covered = sum(engine.snapshot.pods[victim.pod].labels["app"] == "x" for victim in victims)
    assert not budgets or covered <= budgets[0].disruptions_allowed
    with engine.snapshot.what_if():
        for victim in victims:
            engine.snapshot.forget(victim.pod)
        assert isinstance(place_gang(engine, gang, now=NOW), GangPlacement)


def a_full_fleet(rng: Random) -> list[Pod]:
    """Pods of one to four GPUs on three nodes of four."""
    pods: list[Pod] = []
    for node in "abc":
        first = 0
        while first < 4 and rng.random() < 0.95:
            size = min(4 - first, rng.choice((1, 1, 2, 3, 4)))
            held = range(first, first + size)
            pods.append(a_pod(f"{node}{first}", on=node, gpus=held, priority=rng.choice((1, 1, 1, 2))))
            first += size
    return pods


def cost(pods: Sequence[Pod]) -> tuple[int, int]:
    """Highest priority among these, and the GPUs they hold."""
    return max((pod.priority for pod in pods), default=-1), sum(len(pod.gpu_ids) for pod in pods)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
@example(69)  # two of two GPUs: by member, five are lost; one pod with four makes room for both
@example(24)
@example(2808)  # free GPUs beside the victims count: fewer can be lost than the members get
@example(535)  # as many GPUs are lost, and at a lower priority
@example(1141)  # one of priority 2 goes anyhow: then a pod with one GPU, not a lower one with three
def test_no_set_of_victims_would_lose_fewer_gpus(seed: int) -> None:
    """By trying every set of pods."""
    rng = Random(seed)
    pods = a_full_fleet(rng)
    engine = fleet(*(leased(node, 4) for node in "abc"), *pods)
    sizes = [rng.choice((1, 2, 2, 4))] * rng.randint(2, 3) if rng.random() < 0.5 else []
    gang = a_gang(*(sizes or [rng.randint(1, 4) for _ in range(rng.randint(2, 3))]))

    def fits_without(gone: Sequence[Pod]) -> bool:
        with engine.snapshot.what_if():
            for pod in gone:
                engine.snapshot.forget(pod.key)
            return isinstance(place_gang(engine, gang, now=NOW), GangPlacement)

    if fits_without(()):
        return
    found = preempt_for_gang(engine, gang, ALONE, now=NOW)
    sets = chain.from_iterable(combinations(pods, count) for count in range(len(pods) + 1))
    least: tuple[int, int] | None = None
    for gone in sets:
        if (least is None or cost(gone) < least) and fits_without(gone):
            least = cost(gone)
    if isinstance(found, NoPreemption):
        assert least is None
    else:
        victims = [engine.snapshot.pods[victim.pod] for one in found for victim in one.victims]
        assert cost(victims) == least


def test_who_turns_out_not_to_be_needed_is_spared() -> None:
    """Two small pods look cheapest for the second member; but the gang that goes for the third makes room for both."""
    small = [a_pod(f"s{gpu}", on="c", gpus=(gpu,), priority=1) for gpu in (0, 1)]
    pair = [a_pod(f"pair-{node}", on=node, gpus=range(8), priority=1) for node in "ab"]
    nodes = [leased(node, 8) for node in "abcd"]
    whole = BoundGang(ObjectKey("n", "pair"), 2, tuple(pod.key for pod in pair))
    around = PreemptionContext(gangs={pod.key: whole for pod in pair})
    found = answer(fleet(*nodes, *small, *pair), a_gang(8, 8, 8), around)
    assert {word for word in found.replace(",", "").split() if "@" not in word} == {"pair-a", "pair-b"}
