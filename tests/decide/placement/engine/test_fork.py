"""A forked engine answers as one that was made anew on the same snapshot, now and after changes of either."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.worlds import NODES, a_step, a_waiting
from ullage.decide.placement.engine import NoFit, Placement, PlacementEngine
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.pod import Pod
from ullage.model.quota import Quota, QuotaLimits
from ullage.model.stepper import finish
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot

NOW = Instant(10.0)


def answers(engine: PlacementEngine, pods: list[Pod]) -> list[object]:
    """Answers to all kinds of questions that planners ask."""
    placed: list[Placement | NoFit] = [engine.place(pod, now=NOW) for pod in pods]
    one_node = [engine.place_on(pod, name, now=NOW) for pod in pods for name in NODES]
    codes = [engine.codes(pod, now=NOW)[engine.snapshot.columns.by_name].tolist() for pod in pods]
    closed = [engine.quota.closed((pod,)) for pod in pods]
    rows = [None if one is None else one[engine.snapshot.columns.by_name].tolist() for one in closed]
    return [placed, one_node, codes, rows, [engine.quota.usage(name) for name in ("n", "m")]]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_forked_engine_answers_as_a_new_one(seed: int) -> None:
    rng, snapshot = Random(seed), ClusterSnapshot()
    engine = PlacementEngine(snapshot)
    pods = [a_waiting(rng, f"new-{number}") for number in range(6)]
    quota = Quota(key=ObjectKey("n", "q"), uid="q", generation=1, limits=QuotaLimits(gpus=rng.randint(0, 6)))
    snapshot.apply(Added(quota.key, quota))
    for _ in range(rng.randint(0, 2)):
        for _ in range(25):
            snapshot.apply(a_step(rng, snapshot.state))
        answers(engine, pods)
    for _ in range(rng.randint(0, 10)):
        snapshot.apply(a_step(rng, snapshot.state))
    finish(engine.warm_up())
    if rng.random() < 0.5:
        snapshot.apply(a_step(rng, snapshot.state))
    twin = engine.fork()
    asked = answers(twin, pods)
    assert asked == answers(PlacementEngine(snapshot.fork()), pods)
    for _ in range(10):
        snapshot.apply(a_step(rng, snapshot.state))
    assert answers(twin, pods) == asked
    assert answers(engine, pods) == answers(PlacementEngine(snapshot.fork()), pods)
    for _ in range(10):
        twin.snapshot.apply(a_step(rng, twin.snapshot.state))
    assert answers(twin, pods) == answers(PlacementEngine(twin.snapshot.fork()), pods)
