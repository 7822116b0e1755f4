"""The two forms of the rules agree: vectors over all nodes say what asking one node after the other says."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.worlds import NODES, a_pod, a_step, a_waiting
from ullage.decide.placement.filters.codes import NO_NODE, REASONS
from ullage.decide.placement.filters.table import FilterTable
from ullage.model.pod import Pod
from ullage.model.verdict import Reason
from ullage.state.snapshot import ClusterSnapshot


def both_say_the_same(table: FilterTable, placements: ClusterSnapshot, pod: Pod) -> None:
    codes = table.codes(pod)
    columns = placements.columns
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
    placements = ClusterSnapshot()
    table = FilterTable(placements)
    waiting = [a_waiting(rng, f"waiting-{number}") for number in range(6)]
    for _ in range(steps):
        placements.apply(a_step(rng, placements.state))
        both_say_the_same(table, placements, rng.choice(waiting))
    for pod in waiting:
        both_say_the_same(table, placements, pod)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_vectors_agree_with_rules_inside_what_ifs(seed: int) -> None:
    rng = Random(seed)
    placements = ClusterSnapshot()
    table = FilterTable(placements)
    for _ in range(50):
        placements.apply(a_step(rng, placements.state))
    waiting = [a_waiting(rng, f"waiting-{number}") for number in range(6)]
    for _ in range(6):
        with placements.what_if() as trial:
            for _ in range(3):
                if placements.pods and rng.random() < 0.4:
                    placements.remove(rng.choice(sorted(placements.pods)))
                else:
                    placements.place(a_pod(rng, f"tried-{rng.randint(0, 2)}"), rng.choice(NODES))
                both_say_the_same(table, placements, rng.choice(waiting))
            if rng.random() < 0.3:
                trial.keep()
        both_say_the_same(table, placements, rng.choice(waiting))


def test_random_clusters_reach_every_rule() -> None:
    """The two tests above would prove little if most rules never refused."""
    seen: set[Reason] = set()
    for seed in range(300):
        rng = Random(seed)
        placements = ClusterSnapshot()
        for _ in range(40):
            placements.apply(a_step(rng, placements.state))
        for number in range(4):
            seen |= {v.reason for v in FilterTable(placements).explain(a_waiting(rng, f"waiting-{number}")).values()}
    reachable = set(REASONS[: REASONS.index(Reason.NO_GPUS)])
    assert seen == reachable
