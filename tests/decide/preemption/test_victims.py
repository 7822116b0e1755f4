"""Who must go: the right GPUs, the lowest priority, the fewest; and whom nothing may touch."""

from typing import Any

import pytest
from msgspec import structs

from tests.decide.preemption.fleets import A100, NOW, a_budget, a_node, a_pod, digest, fleet, leased
from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.preemption.preempt import NoPreemption, NoPreemptionReason, preempt
from ullage.decide.preemption.protection import BoundGang, PreemptionContext
from ullage.decide.preemption.victims import would_suit
from ullage.model.claim import DevicePolicy, DeviceRequest, Exclusivity, TopologyMode
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import Preempt
from ullage.model.node import Taint
from ullage.model.pod import Owner, Phase, Pod
from ullage.model.units import Bytes
from ullage.state.cluster import Fact

ALONE = PreemptionContext()
LINKED = DeviceRequest(topology=TopologyMode.REQUIRED)


def answer(engine: PlacementEngine, pod: Pod, around: PreemptionContext = ALONE) -> str:
    """`a: p q` for a node and its victims, the least important first; or why nobody goes."""
    before = digest(engine.snapshot)
    found = preempt(engine, pod, around, now=NOW)
    assert digest(engine.snapshot) == before
    if isinstance(found, NoPreemption):
        return found.reason.value
    return f"{found.node}:" + "".join(f" {victim.pod.name}" for victim in found.victims)


def asker(gpus: int = 1, priority: int = 10, **facts: Any) -> Pod:
    return a_pod("asker", gpus=gpus, priority=priority, **facts)


def on_a(*pods: tuple[str, str, int]) -> list[Pod]:
    """Pods on node a: their name, their GPUs as digits, their priority."""
    return [a_pod(name, on="a", gpus=[int(gpu) for gpu in ids], priority=level) for name, ids, level in pods]


@pytest.mark.parametrize(
    ("pods", "pod", "expected"),
    [
        pytest.param([("p", "0", 1), ("q", "1", 2), ("r", "23", 3)], asker(), "a: p", id="the-lowest-goes"),
        pytest.param([("p", "0", 1), ("q", "1", 1), ("r", "23", 1)], asker(2), "a: r", id="one-rather-than-two"),
        pytest.param([("p", "0", 1), ("q", "1", 1), ("r", "23", 2)], asker(2), "a: p q", id="lower-rather-than-fewer"),
        pytest.param([("p", "01", 5), ("q", "23", 10)], asker(2), "a: p", id="its-own-priority-is-not-lower"),
        pytest.param([("p", "0", 5), ("q", "123", 10)], asker(2), "NotEnoughLower", id="not-enough-of-lower-priority"),
        pytest.param([("p", "0123", 10)], asker(), "NotEnoughLower", id="nobody-is-lower"),
        pytest.param([("p", "0123", 1)], asker(preempts=False), "PreemptsNobody", id="its-policy-is-never"),
        pytest.param([("p", "0123", 1)], asker(5), "NotForLackOfRoom", id="the-node-is-too-small-when-empty"),
    ],
)
def test_victims_on_one_node(pods: list[tuple[str, str, int]], pod: Pod, expected: str) -> None:
    assert answer(fleet(leased("a", 4), *on_a(*pods)), pod) == expected


def test_a_node_that_was_deleted_during_the_search_suits_nobody() -> None:
    assert not would_suit(fleet(leased("a", 4)), asker(), "gone", ())


def test_victims_free_the_right_gpus() -> None:
    """Two GPUs of one island are wanted: the lowest pods hold one in each, which is of no use."""
    pods = on_a(("p", "0", 1), ("q", "2", 1), ("r", "1", 2), ("s", "3", 3))
    assert answer(fleet(leased("a", 2, 2), *pods), asker(2)) == "a: p q"
    assert answer(fleet(leased("a", 2, 2), *pods), asker(2, ask=LINKED)) == "a: p r"


def test_free_gpus_of_the_island_are_used() -> None:
    pods = on_a(("p", "0", 1), ("q", "2", 5), ("r", "3", 5))
    assert answer(fleet(leased("a", 2, 2), *pods), asker(2, ask=LINKED)) == "a: p"


def test_gpus_asked_for_by_name_are_freed() -> None:
    ask = DeviceRequest(policy=DevicePolicy.PREFER_IDS, prefer_ids=(2,))
    pods = on_a(("p", "0", 1), ("q", "1", 1), ("r", "2", 9), ("s", "3", 1))
    assert answer(fleet(leased("a", 4), *pods), asker(ask=ask)) == "a: r"


def test_a_share_is_freed_on_one_gpu() -> None:
    half = DeviceRequest(exclusivity=Exclusivity.SHARED, memory=Bytes(40 << 30))
    shares = [
        structs.replace(a_pod(f"p{n}", on="a", gpus=(n // 2,), priority=n, ask=half), gpu_share=500) for n in range(4)
    ]
    assert answer(fleet(leased("a", 2), *shares), asker(ask=half)) == "a: p0"
    assert answer(fleet(leased("a", 2), *shares), asker()) == "a: p0 p1"


def test_other_resources_count_too() -> None:
    small = {"cpu": 4000, "memory": 10**12, "pods": 110_000}
    pods = [a_pod(f"p{n}", on="a", cpu=1000 * n, priority=1) for n in (1, 3)]
    assert answer(fleet(a_node("a", allocatable=small), *pods), a_pod("asker", cpu=2000, priority=5)) == "a: p3"


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param({"a": [(0, 5)], "b": [(0, 4)]}, "b", id="lowest-highest-priority"),
        pytest.param({"a": [(0, 5), (0, 3)], "b": [(0, 5), (0, 2)]}, "b", id="lowest-sum"),
        pytest.param({"a": [(0, 5), (0, -9)], "b": [(0, 5)]}, "b", id="fewest-though-the-sum-looks-lower"),
        pytest.param({"a": [(8, 5)], "b": [(9, 5)]}, "b", id="who-came-last"),
        pytest.param({"b": [(8, 5)], "a": [(8, 5)]}, "a", id="name"),
    ],
)
def test_the_order_of_nodes(there: dict[str, list[tuple[float, int]]], expected: str) -> None:
    """Each pod with when it came and its priority; the asker needs the whole node, so all of them must go."""
    pods = [
        a_pod(f"{node}{number}", on=node, cpu=64_000 // len(pods), priority=level, created=came)
        for node, pods in there.items()
        for number, (came, level) in enumerate(pods)
    ]
    engine = fleet(*(a_node(node) for node in there), *pods)
    assert answer(engine, a_pod("asker", cpu=64_000, priority=10)).startswith(f"{expected}:")


OLD, YOUNG = 1.0, 900.0


def held(name: str, on: str, ids: str, **facts: Any) -> Pod:
    return a_pod(name, on=on, gpus=[int(gpu) for gpu in ids], **facts)


@pytest.mark.parametrize(
    ("pods", "pod", "expected"),
    [
        pytest.param(
            [held("large", "a", "01234567", created=YOUNG), held("small", "b", "0", created=OLD)],
            asker(),
            "b: small",
            id="a-smaller-victim-on-another-node-though-it-is-older",
        ),
        pytest.param(
            [
                held("large", "a", "0123", created=YOUNG),
                *(held(f"s{n}", "a", str(n), created=OLD) for n in range(4, 8)),
            ],
            asker(),
            "a: s7",
            id="a-smaller-victim-on-the-same-node-though-it-is-older",
        ),
        pytest.param(
            [held("large", "a", "01234567"), held("s0", "b", "0"), held("s1", "b", "1"), held("s2", "b", "2")],
            asker(2),
            "b: s1 s2",
            id="two-of-one-gpu-rather-than-one-of-eight",
        ),
        pytest.param(
            [held("large", "a", "01234567", priority=1), held("small", "b", "0", priority=2)],
            asker(),
            "a: large",
            id="priority-decides-before-gpus-do",
        ),
        pytest.param(
            [held("gpu", "a", "0", cpu=64_000, created=YOUNG), a_pod("plain", on="b", cpu=64_000, created=OLD)],
            a_pod("asker", cpu=1000, priority=10),
            "b: plain",
            id="a-pod-without-gpus-evicts-one-without",
        ),
        pytest.param(
            [held("old", "a", "01", created=OLD), held("young", "b", "01", created=YOUNG)],
            asker(),
            "b: young",
            id="age-decides-among-equal-losses",
        ),
    ],
)
def test_as_few_gpus_as_can_be_are_lost(pods: list[Pod], pod: Pod, expected: str) -> None:
    """The other GPUs of both nodes are held by pods that nobody may touch."""
    used = {"a": set(range(8)), "b": set(range(8))}
    for one in pods:
        used[one.node] -= set(one.gpu_ids)
    fixed = [a_pod(f"fixed-{node}", on=node, gpus=sorted(left), priority=99) for node, left in used.items() if left]
    assert answer(fleet(leased("a", 8), leased("b", 8), *pods, *fixed), pod) == expected


@pytest.mark.parametrize(
    ("young", "expected"),
    [
        pytest.param("large", "a: large", id="also-found-by-age"),
        pytest.param("small", "a: large", id="neither-by-age-nor-by-size"),
    ],
)
def test_the_island_that_loses_the_fewest_gpus_is_freed(young: str, expected: str) -> None:
    """Three GPUs of one island, by one pod; four of the other, by two smaller ones."""
    came = {name: YOUNG if name == young else OLD for name in ("large", "small")}
    pods = [
        held("large", "a", "012", created=came["large"]),
        held("s0", "a", "45", created=came["small"]),
        held("s1", "a", "67", created=came["small"]),
    ]
    pod = asker(4, ask=DeviceRequest(topology=TopologyMode.REQUIRED))
    assert answer(fleet(leased("a", 4, 4), *pods), pod) == expected


def test_a_gang_counts_with_its_members_on_other_nodes() -> None:
    """One GPU here, and six elsewhere, is more than three here; a member that the gang can spare is only its own."""
    gang = [held("g0", "a", "0"), held("g1", "b", "012345")]
    other = held("other", "a", "123")
    engine = fleet(leased("a", 4), leased("b", 6), *gang, other)
    assert answer(engine, asker(), a_gang(*gang, need=2)) == "a: other"
    assert answer(engine, asker(), a_gang(*gang, need=1)) == "a: g0"


def test_only_nodes_that_fewer_pods_could_cure_are_looked_at() -> None:
    tainted = leased("a", 1, taints=(Taint("k", "", "NoSchedule"),))
    wrong = leased("b", 1, model=A100)
    pods = [a_pod(name, on=name, gpus=(0,), priority=level) for name, level in (("a", 1), ("b", 1), ("c", 5))]
    engine = fleet(tainted, wrong, leased("c", 1), *pods)
    assert answer(engine, asker(ask=DeviceRequest(model="H100"))) == "c: c"


@pytest.mark.parametrize(
    ("budgets", "labels", "expected"),
    [
        pytest.param([a_budget("b", "x", 1)], "xx", "a: q", id="one-may-go"),
        pytest.param([a_budget("b", "x", 0)], "x-", "a: q", id="a-spent-budget-protects"),
        pytest.param([a_budget("b", "x", 0)], "xx", "Protected", id="all-are-protected"),
        pytest.param(
            [a_budget("b", "x", 5, current=False)], "xx", "Protected", id="a-budget-out-of-date-allows-nothing"
        ),
        pytest.param(
            [a_budget("b", "x", 5), a_budget("c", "x", 5)], "xx", "Protected", id="two-budgets-block-for-ever"
        ),
    ],
)
def test_budgets_are_never_violated(budgets: list[Fact], labels: str, expected: str) -> None:
    pods = [
        a_pod(name, on="a", gpus=(gpu,), priority=1, created=gpu, labels={"app": app})
        for gpu, (name, app) in enumerate(zip("pq", labels, strict=True))
    ]
    assert answer(fleet(leased("a", 2), *pods, *budgets), asker()) == expected


def test_of_several_ways_to_spend_a_budget_the_one_that_helps_is_found() -> None:
    """Two GPUs are wanted and one pod may go: it must be the one that holds two."""
    pods = on_a(("p", "0", 1), ("q", "1", 2), ("r", "23", 3))
    labelled = [structs.replace(pod, labels={"app": "x"}) for pod in pods]
    assert answer(fleet(leased("a", 4), *labelled, a_budget("b", "x", 1)), asker(2)) == "a: r"
    assert answer(fleet(leased("a", 4), *labelled, a_budget("b", "x", 2)), asker(2)) == "a: p q"
    assert answer(fleet(leased("a", 4), *labelled, a_budget("b", "x", 2)), asker(4)) == "Protected"


def test_a_pod_that_never_started_needs_no_budget() -> None:
    pod = a_pod("p", on="a", gpus=(0,), labels={"app": "x"}, phase=Phase.PENDING)
    assert answer(fleet(leased("a", 1), pod, a_budget("b", "x", 0)), asker()) == "a: p"


def test_evictions_that_are_decided_have_spent_their_budget() -> None:
    pods = [
        a_pod("p", on="a", gpus=(0,), labels={"app": "x"}),
        a_pod("q", on="b", gpus=(0,), labels={"app": "x"}),
    ]
    engine = fleet(leased("a", 1), leased("b", 1), *pods, a_budget("b", "x", 1))
    first = PreemptionContext(leaving={ObjectKey("n", "p")}, nominated=(asker(nominated="a"),))
    assert answer(engine, a_pod("other", gpus=1, priority=10), first) == "Protected"
    assert answer(engine, a_pod("other", gpus=1, priority=10)) == "a: p"


@pytest.mark.parametrize(
    "untouchable",
    [
        pytest.param({"owner": Owner("Node", "a", "u")}, id="a-static-pod"),
        pytest.param({"priority": 10}, id="one-of-the-same-priority"),
    ],
)
def test_some_are_never_victims(untouchable: dict[str, object]) -> None:
    pod = structs.replace(a_pod("p", on="a", gpus=(0,)), **untouchable)
    assert answer(fleet(leased("a", 1), pod), asker()) == "NotEnoughLower"


def test_a_pod_whose_bind_is_under_way_is_not_evicted() -> None:
    engine = fleet(leased("a", 1))
    engine.snapshot.assume(a_pod("p", gpus=1), "a", (0,))
    assert answer(engine, asker()) == "NotEnoughLower"


def test_nobody_else_goes_while_enough_are_leaving() -> None:
    leaving = a_pod("p", on="a", gpus=(0,), priority=50, deleting=True)
    engine = fleet(leased("a", 2), leaving, a_pod("q", on="a", gpus=(1,)))
    assert answer(engine, asker()) == "a:"
    assert answer(engine, asker(2)) == "a: q"


def test_waiting_for_who_leaves_is_better_than_the_lowest_victim() -> None:
    leaving = a_pod("p", on="b", gpus=(0,), deleting=True)
    assert (
        answer(fleet(leased("a", 1), leased("b", 1), leaving, a_pod("q", on="a", gpus=(0,), priority=-9)), asker())
        == "b:"
    )


@pytest.mark.parametrize(
    ("nominated", "expected"),
    [
        pytest.param("a", "VictimsLeaving", id="it-waits-for-its-node"),
        pytest.param("b", "a: q", id="nobody-leaves-the-node-it-has"),
        pytest.param("gone", "a: q", id="its-node-is-gone"),
        pytest.param("t", "a: q", id="its-node-will-not-do-any-more"),
    ],
)
def test_no_second_preemption_while_victims_are_leaving(nominated: str, expected: str) -> None:
    tainted = leased("t", 1, taints=(Taint("k", "", "NoSchedule"),))
    engine = fleet(
        leased("a", 2),
        leased("b", 1),
        tainted,
        a_pod("p", on="a", gpus=(0,), deleting=True),
        a_pod("q", on="a", gpus=(1,)),
        a_pod("r", on="b", gpus=(0,), priority=99),
        a_pod("s", on="t", gpus=(0,), deleting=True),
    )
    assert answer(engine, asker(2, nominated=nominated)) == expected


def test_room_made_for_another_is_not_taken() -> None:
    """GPU 0 is leaving for a pod nominated to a; whoever comes next must evict somebody else."""
    engine = fleet(
        leased("a", 2), a_pod("p", on="a", gpus=(0,), deleting=True), a_pod("q", on="a", gpus=(1,), priority=1)
    )
    first = a_pod("first", gpus=1, priority=10, nominated="a")
    assert answer(engine, a_pod("next", gpus=1, priority=10), PreemptionContext(nominated=(first,))) == "a: q"
    assert answer(engine, a_pod("next", gpus=1, priority=11), PreemptionContext(nominated=(first,))) == "a:"


def a_gang(*members: Pod, need: int) -> PreemptionContext:
    gang = BoundGang(ObjectKey("n", "g"), need, tuple(pod.key for pod in members))
    return PreemptionContext(gangs={pod.key: gang for pod in members})


def members(*levels: int) -> list[Pod]:
    """One on GPU 0 of each of the nodes a, b, c."""
    return [a_pod(f"g{node}", on=node, gpus=(0,), priority=level) for node, level in zip("abc", levels, strict=False)]


@pytest.mark.parametrize(
    ("levels", "need", "extra", "expected"),
    [
        pytest.param((1, 1, 1), 3, [], "a: ga gb gc", id="all-or-none"),
        pytest.param((1, 1, 1), 2, [], "a: ga", id="one-may-be-spared"),
        pytest.param((1, 1, 10), 3, [], "Protected", id="a-member-of-high-priority-protects-all"),
        pytest.param((1, 1, 1), 4, [], "a: ga gb gc", id="a-gang-that-is-not-whole-goes-whole"),
        pytest.param((1, 1, 1), 3, [("x", 9)], "a: ga gb gc", id="priority-decides-before-number-does"),
        pytest.param((1, 1, 1), 3, [("x", 1)], "d: x", id="one-pod-rather-than-a-gang"),
    ],
)
def test_gangs_go_whole(levels: tuple[int, ...], need: int, extra: list[tuple[str, int]], expected: str) -> None:
    gang = members(*levels)
    others = [a_pod(name, on="d", gpus=(0,), priority=level) for name, level in extra]
    engine = fleet(*(leased(node, 1) for node in "abcd"[: 3 + len(extra)]), *gang, *others)
    assert answer(engine, asker(), a_gang(*gang, need=need)) == expected


def test_a_gang_with_a_protected_member_spares_what_it_can() -> None:
    """Two on one node and one elsewhere under a spent budget: the gang cannot end, but it can spare one."""
    gang = [
        a_pod("g0", on="a", gpus=(0,)),
        a_pod("g1", on="a", gpus=(1,)),
        a_pod("g2", on="b", gpus=(0,), labels={"app": "x"}),
    ]
    engine = fleet(leased("a", 2), leased("b", 1), *gang, a_budget("b", "x", 0))
    around = a_gang(*gang, need=2)
    assert answer(engine, asker(1), around) == "a: g1"
    assert answer(engine, asker(2), around) == "Protected"


def test_the_action_says_who_and_why() -> None:
    found = preempt(fleet(leased("a", 4), *on_a(("p", "0123", 3))), asker(2), ALONE, now=NOW)
    assert isinstance(found, Preempt)
    assert (found.pod, found.uid, found.victims[0].uid) == (ObjectKey("n", "asker"), "uid-asker", "uid-p")
    assert found.why == "priority 10 needs a: evicting 1 of priority 3 or lower"


def test_a_protected_pod_says_where() -> None:
    pod = a_pod("p", on="a", gpus=(0,), labels={"app": "x"})
    found = preempt(fleet(leased("a", 1), pod, a_budget("b", "x", 0)), asker(), ALONE, now=NOW)
    assert found == NoPreemption(NoPreemptionReason.PROTECTED, "budgets or gangs protect those in the way, as on a")
