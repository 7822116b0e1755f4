"""GPUs that Leases hold are no place for anybody: of pods about to come, and of pods that are gone."""

import pytest
from msgspec.structs import replace

from tests.decide.draining.fleets import NOW, a_picture, going, gpu_node, pod, staying
from ullage.decide.draining.inputs import FRESH, UNLIMITED, DrainInputs, DrainPlan, DrainPolicy
from ullage.decide.draining.planner import plan_drain
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.lease import GpuLease, LeaseHold
from ullage.testing.facts import lease_fact


def planned_beside(*, dead: bool, on: str) -> DrainPlan:
    """Two nodes with eight GPUs, a pod on one and another that waits, and a Lease of another GPU of its node."""
    waiting = pod("slow", gpus=1)
    on_it = replace(pod("p", "a", gpus=1), gpu_ids=(0,))
    assigner = a_picture(gpu_node("a", 8), gpu_node("b", 8), on_it, *(() if dead else (waiting,)))
    lease = lease_fact(1, "dead" if dead else waiting.uid, node=on, renewed=NOW)
    assigner.snapshot.apply(Added(ObjectKey("leases", lease.name), lease))
    facts = DrainInputs(candidates=frozenset(on))
    return plan_drain(assigner, facts, DrainPolicy(), FRESH, UNLIMITED, now=NOW)


@pytest.mark.parametrize(
    ("dead", "answer"),
    [
        pytest.param(False, "DestinationOfOthers", id="a-pod-that-is-about-to-come-keeps-its-node"),
        pytest.param(True, "", id="a-gpu-in-quarantine-does-not"),
    ],
)
def test_a_node_with_a_leased_gpu(dead: bool, answer: str) -> None:
    plan = planned_beside(dead=dead, on="a")
    assert (sorted(going(plan)), staying(plan).get("a", "")) == ([] if answer else ["a"], answer)


@pytest.mark.parametrize(
    ("quarantined", "answer"),
    [pytest.param(True, "NoPlaceToMovePods", id="in-quarantine"), pytest.param(False, "", id="free")],
)
def test_a_gpu_in_quarantine_is_no_place_for_pods_that_would_have_to_move(quarantined: bool, answer: str) -> None:
    """The other node has one GPU that no pod uses, and its Lease names a pod that is gone."""
    runs = [replace(pod(name, on, gpus=1), gpu_ids=(0,)) for name, on in (("p", "a"), ("q", "b"))]
    assigner = a_picture(gpu_node("a", 2), gpu_node("b", 2), *runs)
    if quarantined:
        hold = LeaseHold("dead")
        lease = GpuLease(
            name="gpu-b-1", node="b", device=1, holds=(hold,), shared=False, renewed=NOW, resource_version="1"
        )
        assigner.snapshot.apply(Added(ObjectKey("leases", lease.name), lease))
    facts = DrainInputs(candidates=frozenset("a"))
    plan = plan_drain(assigner, facts, DrainPolicy(), FRESH, UNLIMITED, now=NOW)
    assert (sorted(going(plan)), staying(plan).get("a", "")) == ([] if answer else ["a"], answer)
