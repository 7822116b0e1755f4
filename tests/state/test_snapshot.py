"""Who is where: whatever is heard, tried and taken back, the columns equal a count from nothing."""

import gc
import weakref
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.worlds import NODES, a_node, a_pod, a_pod_term, a_step, an_inventory
from ullage.errors import InvariantBroken
from ullage.model.device import Device, DeviceHealth, Inventory
from ullage.model.fact_event import Added, Deleted, ObjectKey, Synced, Updated
from ullage.model.node import Node, Taint
from ullage.model.pod import Phase, Pod
from ullage.model.resources import GPU
from ullage.model.shape import Shape, interned
from ullage.model.shape_terms import HostPort
from ullage.model.units import Bytes, Instant, Milli
from ullage.state.device_columns import NodeKindCode
from ullage.state.node_columns import MOST_COUNTED
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.checks.audit import drifted, everything, row_facts
from ullage.testing.facts import node_fact, pod_fact

SEEDS = st.integers(0, 2**32)


def try_things(rng: Random, snapshot: ClusterSnapshot, depth: int, *, nodes: bool = True) -> None:
    """Place, remove and move, in what-ifs inside what-ifs; nothing is kept at the outermost level.

    `nodes`: nodes are supposed, too, and pods counted by number.
    """
    for _ in range(rng.randint(1, 4)):
        move = rng.random()
        if move < 0.2 and snapshot.pods:
            snapshot.forget(rng.choice(sorted(snapshot.pods)))
        elif move < 0.35 and nodes:
            name = rng.choice((*NODES, "~new-1", "~new-2"))
            snapshot.put_node(a_node(rng, name), an_inventory(rng, name) if rng.random() < 0.5 else None)
        elif move < 0.45 and nodes and snapshot.columns.rows:
            row = snapshot.columns.rows[rng.choice(sorted(snapshot.columns.rows))]
            snapshot.add_bulk(row, a_pod(rng, "many").shape, rng.choice((-2, 1, 3)))
        elif move < 0.8 or not depth:
            pod = a_pod(rng, rng.choice("pqrxyz"))
            snapshot.assume(pod, rng.choice(NODES), (rng.randrange(4),), Milli(rng.choice((1000, 250))))
        else:
            with snapshot.what_if() as trial:
                try_things(rng, snapshot, depth - 1, nodes=nodes)
                if rng.random() < 0.5:
                    trial.keep()


@settings(max_examples=80, deadline=None)
@given(SEEDS, st.integers(1, 60))
def test_what_is_counted_never_drifts(seed: int, steps: int) -> None:
    rng, snapshot = Random(seed), ClusterSnapshot()
    watched = [snapshot.counts((a_pod_term(rng, "n").pods,)) for _ in range(4)]
    for _ in range(steps):
        snapshot.apply(a_step(rng, snapshot.state))
        if rng.random() < 0.2:
            with snapshot.what_if() as trial:
                try_things(rng, snapshot, 1, nodes=False)
                if rng.random() < 0.5:
                    trial.keep()
        assert not list(drifted(snapshot))
    assert all(counts.total == counts.per_row.sum() for counts in watched)


@settings(max_examples=80, deadline=None)
@given(SEEDS)
def test_a_what_if_leaves_no_trace(seed: int) -> None:
    rng, snapshot = Random(seed), ClusterSnapshot()
    for _ in range(40):
        snapshot.apply(a_step(rng, snapshot.state))
    before, used, free = everything(snapshot), snapshot.columns.used.copy(), snapshot.columns.gpus.free.copy()
    with snapshot.what_if():
        try_things(rng, snapshot, 3)
    assert everything(snapshot) == before
    assert np.array_equal(snapshot.columns.used[: len(used)], used)
    assert not snapshot.columns.used[len(used) :].any(), "of resources nobody had asked for before"
    assert np.array_equal(snapshot.columns.gpus.free, free)
    assert not list(drifted(snapshot))


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_trial_rolls_back_to_its_mark(seed: int) -> None:
    rng, snapshot = Random(seed), ClusterSnapshot()
    for _ in range(30):
        snapshot.apply(a_step(rng, snapshot.state))
    with snapshot.what_if() as trial:
        try_things(rng, snapshot, 1)
        before, mark = everything(snapshot), trial.mark()
        try_things(rng, snapshot, 2)
        trial.rollback(mark)
        assert everything(snapshot) == before


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_fork_is_equal_and_lives_its_own_life(seed: int) -> None:
    rng, snapshot = Random(seed), ClusterSnapshot()
    watched = [snapshot.counts((a_pod_term(rng, "n").pods,)) for _ in range(4)]
    for _ in range(40):
        snapshot.apply(a_step(rng, snapshot.state))
    before, twin = everything(snapshot), snapshot.fork()
    assert everything(twin) == before
    for _ in range(20):
        twin.apply(a_step(rng, twin.state))
        with twin.what_if():
            try_things(rng, twin, 1)
    assert not list(drifted(twin))
    assert everything(snapshot) == before
    forked = everything(twin)
    for _ in range(20):
        snapshot.apply(a_step(rng, snapshot.state))
    assert everything(twin) == forked
    assert not list(drifted(snapshot))
    assert all(counts.total == counts.per_row.sum() for counts in watched)


def test_a_fork_is_freed_as_soon_as_it_is_dropped() -> None:
    rng, snapshot = Random(1), ClusterSnapshot()
    for _ in range(200):
        snapshot.apply(a_step(rng, snapshot.state))
    gc.collect()
    gc.disable()
    try:
        twin = snapshot.fork()
        with twin.what_if() as trial:
            try_things(rng, twin, 1)
            trial.keep()
        parts = [weakref.ref(part) for part in (twin, twin.state, twin.columns, twin.vms, twin.leases)]
        del twin, trial
        assert [part() for part in parts] == [None] * len(parts)
    finally:
        gc.enable()


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_what_is_kept_and_then_removed_leaves_no_trace_either(seed: int) -> None:
    rng, snapshot = Random(seed), ClusterSnapshot()
    for _ in range(40):
        snapshot.apply(a_step(rng, snapshot.state))
    before = everything(snapshot)
    planned = [a_pod(rng, f"new-{number}") for number in range(5)]
    with snapshot.what_if() as trial:
        for pod in planned:
            snapshot.assume(pod, rng.choice(NODES), (0, 1))
        trial.keep()
    assert all(pod.key in snapshot.pods for pod in planned)
    for pod in planned:
        snapshot.forget(pod.key)
    assert everything(snapshot) == before


def node(name: str = "a", **facts: Any) -> Node:
    offers = {"cpu": 4000, "pods": 10_000, GPU: 4000}
    return node_fact(name, **{"allocatable": offers, **facts})


def pod(name: str = "p", *, on: str = "", phase: Phase = Phase.PENDING, **facts: Any) -> Pod:
    shape = interned(Shape(requests=(("cpu", 1000),), host_ports=(HostPort(port=80),)))
    more = {"uid": name, "scheduler": "", "shape": shape, **facts}
    return pod_fact(name, namespace="n", node=on, phase=phase, **more)


def used_cpu(snapshot: ClusterSnapshot, name: str) -> int:
    columns = snapshot.columns
    return int(columns.used[columns.resource("cpu"), columns.rows[name]])


def heard(*facts: Node | Pod | Inventory) -> ClusterSnapshot:
    snapshot = ClusterSnapshot()
    for fact in facts:
        key = (
            fact.key
            if isinstance(fact, Pod)
            else ObjectKey("", fact.node if isinstance(fact, Inventory) else fact.name)
        )
        snapshot.apply(Added(key, fact))
    return snapshot


def test_an_intention_that_comes_true_is_counted_once() -> None:
    waiting = pod()
    snapshot = heard(node(), waiting)
    snapshot.assume(waiting, "a")
    bound = pod(on="a")
    snapshot.apply(Updated(waiting.key, waiting, bound))
    assert used_cpu(snapshot, "a") == 1000


@pytest.mark.parametrize(
    ("news", "left"),
    [
        pytest.param(pod(labels={"new": "label"}), 1000, id="news-of-a-waiting-pod-leave-its-intention"),
        pytest.param(pod(phase=Phase.FAILED), 0, id="a-pod-that-is-over-holds-nothing"),
        pytest.param(pod(on="b"), 0, id="somebody-bound-it-elsewhere"),
        pytest.param(None, 0, id="a-pod-that-is-gone-holds-nothing"),
    ],
)
def test_what_becomes_of_an_intention(news: Pod | None, left: int) -> None:
    waiting = pod()
    snapshot = heard(node("a"), node("b"), waiting)
    snapshot.assume(waiting, "a")
    snapshot.apply(Deleted(waiting.key, waiting) if news is None else Updated(waiting.key, waiting, news))
    assert used_cpu(snapshot, "a") == left


def test_pods_wait_for_a_node_that_comes_late_and_outlive_one_that_goes() -> None:
    snapshot = heard(pod(on="a"), node("a"))
    assert used_cpu(snapshot, "a") == 1000
    snapshot.apply(Deleted(ObjectKey("", "a"), node("a")))
    snapshot.apply(Added(ObjectKey("", "b"), node("b")))
    assert used_cpu(snapshot, "b") == 0
    snapshot.apply(Added(ObjectKey("", "a"), node("a")))
    assert used_cpu(snapshot, "a") == 1000


def test_the_row_of_a_node_that_is_gone_is_used_again() -> None:
    snapshot = heard(*(node(f"n{number}") for number in range(100)))
    snapshot.apply(Deleted(ObjectKey("", "n7"), node("n7")))
    snapshot.apply(Added(ObjectKey("", "new"), node("new")))
    assert snapshot.columns.rows["new"] == 7
    assert snapshot.columns.size == 100


def test_rows_have_an_order_by_name() -> None:
    snapshot = heard(node("c"), node("a"), node("b"))
    columns = snapshot.columns
    assert [columns.names[row] for row in columns.by_name] == ["a", "b", "c"]


def test_only_rows_that_changed_are_stamped() -> None:
    snapshot = heard(node("a"), node("b"), pod(on="a"))
    columns = snapshot.columns
    seen, nodes_seen = columns.changed.version, columns.renewed.version
    snapshot.apply(Updated(ObjectKey("n", "p"), pod(on="a"), pod(on="a", phase=Phase.RUNNING)))
    snapshot.apply(Synced("pods"))
    assert columns.changed.since(seen) == ()
    snapshot.assume(pod("q"), "b")
    assert columns.changed.since(seen) == [columns.rows["b"]]
    assert columns.renewed.since(nodes_seen) == ()
    snapshot.apply(Updated(ObjectKey("", "a"), node("a"), node("a", taints=(Taint("k", "", "NoSchedule"),))))
    assert columns.renewed.since(nodes_seen) == [columns.rows["a"]]
    assert columns.changed.of_row[columns.rows["a"]] > seen


def test_a_cache_too_far_behind_is_told_so() -> None:
    snapshot = heard(node("a"))
    for number in range(10_000):
        snapshot.assume(pod(str(number % 2)), "a")
    assert snapshot.columns.changed.since(0) is None
    assert snapshot.columns.changed.since(snapshot.columns.changed.version - 5000) is not None


def test_nothing_may_be_heard_inside_a_what_if() -> None:
    snapshot = heard(node())
    with snapshot.what_if(), pytest.raises(InvariantBroken, match="inside a what-if"):
        snapshot.apply(Synced("pods"))


def test_a_what_if_is_no_moment_to_fork() -> None:
    snapshot = heard(node())
    with snapshot.what_if(), pytest.raises(InvariantBroken, match="inside a what-if"):
        snapshot.fork()


@pytest.mark.parametrize(
    "suppose",
    [
        pytest.param(lambda snapshot: snapshot.put_node(node("new")), id="a-node"),
        pytest.param(lambda snapshot: snapshot.add_bulk(0, interned(Shape()), 3), id="pods-by-number"),
    ],
)
def test_only_a_what_if_supposes(suppose: Callable[[ClusterSnapshot], None]) -> None:
    snapshot = heard(node())
    with pytest.raises(InvariantBroken, match="outside of a what-if"):
        suppose(snapshot)


def test_an_error_inside_a_what_if_takes_everything_back() -> None:
    snapshot = heard(node())

    def stumble() -> None:
        with snapshot.what_if():
            snapshot.assume(pod(), "a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stumble()
    assert used_cpu(snapshot, "a") == 0


def device(number: int, **facts: Any) -> Device:
    return Device(id=number, uuid=str(number), memory=Bytes(80), **{"model": "H100", **facts})


def test_gpus_of_a_row() -> None:
    devices = (
        device(0, island="x"),
        device(1, island="x", health=DeviceHealth.UNHEALTHY),
        device(2),
        device(5, island="y", model="A100"),
    )
    snapshot = heard(
        node(labels={"gpu.scheduling/node-kind": "counted"}),
        Inventory(node="a", reported_at=Instant(7.0), devices=devices),
        pod(on="a", gpu_ids=(0, 5), gpu_share=250),
    )
    snapshot.assume(pod("q"), "a", (2,))
    gpus, row = snapshot.columns.gpus, snapshot.columns.rows["a"]
    assert gpus.exists[row] == 0b100111
    assert gpus.healthy[row] == 0b100101
    assert gpus.free[row, :6].tolist() == [750, 1000, 0, 0, 0, 750]
    assert gpus.island[row, :6].tolist() == [0, 0, 1, -1, -1, 2]
    assert [gpus.model[row, n] == gpus.models["A100"] for n in (0, 5)] == [False, True]
    assert (gpus.reported_at[row], gpus.kind[row]) == (7.0, NodeKindCode.COUNTED)


def test_an_inventory_that_is_taken_back_leaves_no_gpus() -> None:
    inventory = Inventory(node="a", reported_at=Instant(7.0), devices=(device(0),))
    snapshot = heard(node(), inventory, pod(on="a", gpu_ids=(0,)))
    snapshot.apply(Deleted(ObjectKey("", "a"), inventory))
    gpus, row = snapshot.columns.gpus, snapshot.columns.rows["a"]
    assert (gpus.exists[row], gpus.free[row, 0], gpus.held[row, 0]) == (0, 0, 1000)
    assert not list(drifted(snapshot))


def test_amounts_too_large_to_add_are_still_compared() -> None:
    snapshot = heard(node(allocatable={"cpu": 10**30, "pods": 10**30}))
    assert used_cpu(snapshot, "a") == 0
    snapshot.assume(pod(shape=interned(Shape(requests=(("cpu", 10**29),)))), "a")
    assert used_cpu(snapshot, "a") > 0


EXBIBYTE = 2**60 * 1000
"""In thousandths of a byte."""


def test_sums_stop_at_the_top_and_come_back_exactly() -> None:
    large = interned(Shape(requests=(("memory", EXBIBYTE),), scored_cpu=10**25, scored_memory=EXBIBYTE))
    snapshot = heard(node(), pod("small", on="a"))
    columns = snapshot.columns
    before = row_facts(snapshot, "a")
    bullies = [pod(f"large-{number}", on="a", shape=large) for number in range(9)]
    for bully in bullies:
        snapshot.apply(Added(bully.key, bully))
        assert columns.used[columns.resource("memory"), columns.rows["a"]] == MOST_COUNTED
        assert columns.scored_cpu[columns.rows["a"]] == MOST_COUNTED
        assert not list(drifted(snapshot))
    for bully in bullies:
        snapshot.apply(Deleted(bully.key, bully))
    assert row_facts(snapshot, "a") == before


def asking_for_made_up(names: int) -> Shape:
    return interned(
        Shape(
            requests=tuple((f"made-up.example/{number}", 1000) for number in range(names)),
            node_selector=tuple((f"made-up.example/{number}", "x") for number in range(names)),
        )
    )


def test_names_that_no_node_knows_take_no_room() -> None:
    snapshot = heard(node())
    columns, rows = snapshot.columns, len(snapshot.columns.used)
    for key, _ in asking_for_made_up(300).node_selector:
        assert (snapshot.labels.column(key).codes == -1).all()
    bound = pod(on="a", shape=asking_for_made_up(300))
    snapshot.apply(Added(bound.key, bound))
    assert (len(columns.used), len(snapshot.labels)) == (rows, 0)
    assert not list(drifted(snapshot))


@pytest.mark.parametrize("first", ["the-pod", "the-node"])
def test_a_resource_counts_whoever_is_heard_of_first(first: str) -> None:
    user = pod(on="a", shape=asking_for_made_up(2))
    plain, offering = node(), node(allocatable={"pods": 9000, "made-up.example/1": 4000})
    snapshot = heard(plain, user) if first == "the-pod" else heard(offering, user)
    if first == "the-pod":
        snapshot.apply(Updated(ObjectKey("", "a"), plain, offering))
    columns = snapshot.columns
    assert columns.used[columns.resource("made-up.example/1"), columns.rows["a"]] == 1000
    assert not list(drifted(snapshot))


def test_a_label_is_forgotten_with_the_last_node_that_has_it() -> None:
    snapshot = heard(node("a", labels={"rack": "1"}), node("b", labels={"rack": "2"}))
    rows = snapshot.columns.rows
    assert snapshot.labels.column("rack").codes[[rows["a"], rows["b"]]].tolist() == [0, 1]
    for name, rack in (("a", "1"), ("b", "2")):
        snapshot.apply(Updated(ObjectKey("", name), node(name, labels={"rack": rack}), node(name, labels={})))
    assert (snapshot.labels.column("rack").codes == -1).all()
    assert not len(snapshot.labels)
    snapshot.apply(Updated(ObjectKey("", "b"), node("b", labels={}), node("b", labels={"rack": "9"})))
    assert snapshot.labels.column("rack").values.get("9") == snapshot.labels.column("rack").codes[rows["b"]]
