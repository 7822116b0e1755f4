"""Whether pods that are about to be evicted still have a place."""

import pytest
from msgspec.structs import replace

from tests.decide.draining.fleets import NOW, WEB, Told, a_picture, node, pod
from tests.decide.preemption.fleets import a_pod
from ullage.decide.draining.relocation import DisplacedPods, unplaceable_pods
from ullage.model.draining import DRAINING_TAINT, RecentEviction, WorkloadReplicas
from ullage.model.node import Taint
from ullage.model.stepper import finish
from ullage.model.units import Instant
from ullage.testing.checks.audit import drifted

DRAINING = (Taint(DRAINING_TAINT, "5", "NoSchedule"),)
FLEET: tuple[Told, ...] = (
    node("a", 4, taints=DRAINING),
    node("b", 4, taints=DRAINING),
    node("z", 4),
    pod("p", "a", cpu=2),
    pod("q", "b", cpu=2),
)
GOING = {"a": ["p"], "b": ["q"]}


def short(*facts: Told, evicted: bool = False, back: bool = False) -> dict[str, str]:
    """Nodes that are to go and have a pod without a place."""
    assigner = a_picture(*FLEET, *facts)
    keys = {key.name: key for key in assigner.snapshot.state.pods}
    gone = RecentEviction(pod=replace(pod("gone", "z", cpu=2), uid="gone"), at=Instant(NOW - 5))
    leaving = DisplacedPods(
        nodes={name: [keys[key] for key in pods] for name, pods in GOING.items()},
        evictions=[gone] if evicted else [],
        workloads={WEB.uid: WorkloadReplicas(uid=WEB.uid, kind="ReplicaSet", target=2 if back else 3, current=3)},
    )
    with assigner.snapshot.what_if():
        found = finish(unplaceable_pods(assigner, leaving, now=NOW))
    assert list(drifted(assigner.snapshot)) == [], "the picture is as before"
    return {name: key.name for name, key in found.items()}


@pytest.mark.parametrize(
    ("facts", "said", "expected"),
    [
        pytest.param((), {}, {}, id="as-planned"),
        pytest.param((pod("new", "z", cpu=2),), {}, {"b": "q"}, id="somebody-came"),
        pytest.param((pod("new", "z", cpu=3),), {}, {"a": "p", "b": "q"}, id="somebody-large-came"),
        pytest.param((a_pod("next", cpu=2000),), {}, {"b": "q"}, id="somebody-waits"),
        pytest.param((), {"evicted": True}, {"b": "q"}, id="somebody-was-evicted"),
        pytest.param((), {"evicted": True, "back": True}, {}, id="and-is-back"),
        pytest.param((pod("new", "z", cpu=2), node("y", 4)), {}, {}, id="there-is-another-node"),
    ],
)
def test_room(facts: tuple[Told, ...], said: dict[str, bool], expected: dict[str, str]) -> None:
    assert short(*facts, **said) == expected
