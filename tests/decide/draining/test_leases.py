"""GPUs that Leases hold are no place for anybody: of pods about to come, and of pods that are gone."""

import pytest
from msgspec.structs import replace

from tests.decide.draining.fleets import NOW, a_picture, going, gpu_node, pod, staying
from ullage.decide.draining.inputs import FRESH, UNLIMITED, DrainInputs, DrainPlan, DrainPolicy
from ullage.decide.draining.planner import plan_drain
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.lease import GpuLease, LeaseHold


def planned_beside(*, dead: bool, on: str) -> DrainPlan:
    """Two nodes with eight GPUs, a pod on one and another that waits, and a Lease of another GPU of its node."""
    waiting = pod("slow", gpus=1)
    on_it = replace(pod("p", "a", gpus=1), gpu_ids=(0,))
    assigner = a_picture(gpu_node("a", 8), gpu_node("b", 8), on_it, *(() if dead else (waiting,)))
    lease = GpuLease(
        name=f"gpu-{on}-1",
        node=on,
        device=1,
        holds=(LeaseHold("dead" if dead else waiting.uid),),
        shared=False,
        renewed=NOW,
        resource_version="1",
    )
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
