"""The two forms of the rules agree: vectors over all nodes say what asking one node after the other says."""

from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.worlds import NODES, a_pod, a_step, a_waiting, as_guest, vm_facts
from ullage.decide.placement.filters.codes import NO_NODE, REASONS
from ullage.decide.placement.filters.table import FilterTable
from ullage.model.pod import Pod
from ullage.model.shape import interned
from ullage.model.verdict import Reason
from ullage.state.snapshot import ClusterSnapshot


def both_say_the_same(table: FilterTable, snapshot: ClusterSnapshot, pod: Pod) -> None:
    codes = table.codes(pod)
    columns = snapshot.columns
    assert len(codes) == columns.size
    by_vector = {name: REASONS[codes[row]] for name, row in columns.rows.items()}
    by_rule = {name: verdict.reason for name, verdict in table.explain(pod).items()}
    assert by_vector == by_rule
    assert {row for row in range(columns.size) if codes[row] == NO_NODE} == set(range(columns.size)) - set(
        columns.rows.values()
    )


SEEDS = st.integers(0, 2**32)


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(5, 60))
def test_vectors_agree_with_rules_whatever_was_heard(seed: int, steps: int) -> None:
    rng = Random(seed)
    snapshot = ClusterSnapshot()
    table = FilterTable(snapshot)
    waiting = [a_waiting(rng, f"waiting-{number}") for number in range(6)]
    for _ in range(steps):
        snapshot.apply(a_step(rng, snapshot.state))
        both_say_the_same(table, snapshot, rng.choice(waiting))
    for pod in waiting:
        both_say_the_same(table, snapshot, pod)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_vectors_agree_with_rules_inside_what_ifs(seed: int) -> None:
    rng = Random(seed)
    snapshot = ClusterSnapshot()
    table = FilterTable(snapshot)
    for _ in range(50):
        snapshot.apply(a_step(rng, snapshot.state))
    waiting = [a_waiting(rng, f"waiting-{number}") for number in range(6)]
    for _ in range(6):
        with snapshot.what_if() as trial:
            for _ in range(3):
                if snapshot.pods and rng.random() < 0.4:
                    snapshot.forget(rng.choice(sorted(snapshot.pods)))
                else:
                    snapshot.assume(a_pod(rng, f"tried-{rng.randint(0, 2)}"), rng.choice(NODES))
                both_say_the_same(table, snapshot, rng.choice(waiting))
            if rng.random() < 0.3:
                trial.keep()
        both_say_the_same(table, snapshot, rng.choice(waiting))


def a_cluster_with_vms(rng: Random, steps: int) -> ClusterSnapshot:
    snapshot = ClusterSnapshot()
    for event in vm_facts(rng):
        snapshot.apply(event)
    for _ in range(steps):
        snapshot.apply(a_step(rng, snapshot.state))
    return snapshot


def a_waiting_one(rng: Random, name: str) -> Pod:
    """A pod that asks: of a VM, ordinary, or one that does not say what it needs."""
    pod, kind = a_waiting(rng, name), rng.random()
    if kind < 0.3:
        return as_guest(rng, pod)
    if kind < 0.5:
        return msgspec.structs.replace(pod, shape=interned(msgspec.structs.replace(pod.shape, unbounded=True)))
    return pod


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(5, 40))
def test_vectors_agree_with_rules_where_there_are_vms(seed: int, steps: int) -> None:
    rng = Random(seed)
    snapshot = a_cluster_with_vms(rng, steps)
    table, waiting = FilterTable(snapshot), [a_waiting_one(rng, f"waiting-{number}") for number in range(3)]
    for _ in range(4):
        snapshot.apply(a_step(rng, snapshot.state))
        both_say_the_same(table, snapshot, rng.choice(waiting))
        with snapshot.what_if() as trial:
            for _ in range(3):
                if snapshot.pods and rng.random() < 0.4:
                    snapshot.forget(rng.choice(sorted(snapshot.pods)))
                else:
                    snapshot.assume(a_waiting_one(rng, f"tried-{rng.randint(0, 2)}"), rng.choice(NODES))
                both_say_the_same(table, snapshot, rng.choice(waiting))
            if rng.random() < 0.3:
                trial.keep()
        both_say_the_same(table, snapshot, rng.choice(waiting))


def test_random_clusters_reach_every_rule() -> None:
    """The tests above would prove little if most rules never refused."""
    seen: set[Reason] = set()
    for seed in range(300):
        rng = Random(seed)
        snapshot = ClusterSnapshot() if seed % 3 else a_cluster_with_vms(rng, 0)
        for _ in range(40):
            snapshot.apply(a_step(rng, snapshot.state))
        for number in range(4):
            pod = (a_waiting if seed % 3 else a_waiting_one)(rng, f"waiting-{number}")
            seen |= {v.reason for v in FilterTable(snapshot).explain(pod).values()}
    reachable = set(REASONS[: REASONS.index(Reason.NO_GPUS)])
    assert seen == reachable
