"""The picture of the cluster: what it remembers, what it adds up, and that nothing is lost on the way to a file."""

from collections.abc import Iterable

import pytest

from ullage.model.device import Inventory
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Synced
from ullage.model.node import Node, Taint
from ullage.model.pod import Phase, Pod
from ullage.model.resources import GPU
from ullage.model.selector import parse_selector
from ullage.model.shape import Shape, interned
from ullage.model.units import Instant
from ullage.state.cluster import ClusterState, Fact
from ullage.state.dump import dump, load
from ullage.testing.facts import node_fact, pod_fact


def a_node(name: str = "a", *, gpus: int = 8) -> Node:
    return node_fact(
        name,
        uid=f"uid-{name}",
        created=Instant(1.5),
        labels={"zone": "z"},
        taints=(Taint("k", "v", "NoSchedule"),),
        allocatable={GPU: gpus * 1000},
    )


def a_pod(name: str = "p", *, gpus: int = 1, on: str = "", phase: Phase = Phase.RUNNING) -> Pod:
    return pod_fact(
        name, namespace="n", node=on, phase=phase, shape=interned(Shape(requests=((GPU, gpus * 1000),) if gpus else ()))
    )


def appeared(fact: Node | Pod) -> FactEvent[Fact]:
    return Added(fact.key if isinstance(fact, Pod) else ObjectKey("", fact.name), fact)


def state_of(events: Iterable[FactEvent[Fact]]) -> ClusterState:
    state = ClusterState()
    for event in events:
        state.apply(event)
    return state


def test_what_vanishes_is_forgotten() -> None:
    pod = a_pod(on="a")
    state = state_of([appeared(a_node()), appeared(pod), Deleted(pod.key, pod), Synced("pods")])
    assert not state.pods
    assert state.synced == {"pods"}


def test_an_inventory_of_a_what_if_says_whether_it_changes_anything() -> None:
    state, one = ClusterState(), Inventory(node="a", devices=(), reported_at=Instant(1.0))
    assert state.write_inventory("a", one)
    assert not state.write_inventory("a", one)
    assert state.write_inventory("a", None)
    assert not state.write_inventory("a", None)


def test_a_dump_comes_back_whole_and_equal_to_the_byte() -> None:
    key = ObjectKey("n", "b")
    budget = PodDisruptionBudget(
        key=key,
        uid="u",
        selector=parse_selector("app in (web,db),!old"),
        current=True,
        disruptions_allowed=1,
        current_healthy=3,
        desired_healthy=2,
        evict_unhealthy=False,
    )
    state = state_of([appeared(a_pod(on="a")), appeared(a_node()), Added(key, budget), Synced("pods")])
    text = dump(state, now=Instant(12.25))
    again, moment = load(text)
    assert moment == 12.25
    assert dump(again, now=Instant(12.25)) == text
    assert again.budgets[key] == budget
    assert again.pods == state.pods
    assert again.nodes == state.nodes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(b"{", "not a dump", id="not-json"),
        pytest.param(b"{}", "format", id="not-a-dump"),
        pytest.param(
            b'{"format":2,"takenAt":0,"synced":[],"nodes":[{"name":1}],"pods":[],"budgets":[]}',
            r"\$.nodes\[0\]",
            id="names-the-field",
        ),
        pytest.param(
            b'{"format":9,"takenAt":0,"synced":[],"nodes":[],"pods":[],"budgets":[]}',
            "format is 9",
            id="another-format",
        ),
    ],
)
def test_what_is_not_a_dump_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        load(text)
