"""Which holds on GPUs are over: the table of cases, and the laws that hold for all of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.decide.leases.release import (
    FenceThenRelease,
    Judgement,
    KeepHold,
    KeepReason,
    LeaseGcPolicy,
    LeaseNodeFacts,
    ReleaseHold,
    ReleaseReason,
    decide_fenced,
    decide_hold,
)
from ullage.model.device import Device, Inventory
from ullage.model.fact_event import ObjectKey
from ullage.model.lease import GpuLease, HolderPod, LeaseHold
from ullage.model.units import Bytes, Instant, Milli
from ullage.testing.facts import device_fact, inventory_fact, lease_fact

NOW = Instant(1000.0)
KEY = ObjectKey("default", "p")


def a_lease(*holds: LeaseHold, renewed: float = NOW, device: int = 0, node: str = "node-a") -> GpuLease:
    held = holds or (LeaseHold("u1"),)
    more = {"shared": len(held) > 1, "renewed": Instant(renewed), "resource_version": "7", "pod": KEY}
    return lease_fact(device, *held, node=node, **more)


def a_holder(**facts: Any) -> HolderPod:
    return HolderPod(
        **{"key": KEY, "uid": "u1", "resource_version": "5", "node": "", "over": False, "devices": (), **facts}
    )


def bound(*devices: int, node: str = "node-a", **facts: Any) -> HolderPod:
    return a_holder(node=node, devices=devices, **facts)


def seen_on(*uids: str, device: int = 0, reported_at: float = NOW) -> LeaseNodeFacts:
    gpu = device_fact(device, in_use_by=uids)
    return LeaseNodeFacts(True, inventory_fact("node-a", gpu, reported_at=reported_at))


QUIET, NO_NODE = LeaseNodeFacts(True), LeaseNodeFacts(False)
ABANDONED = a_lease(renewed=NOW - 60)
SLICE = a_lease(LeaseHold("u1", Milli(0), "MIG-a"))


@pytest.mark.parametrize(
    ("pod", "node_facts", "lease", "expected"),
    [
        pytest.param(None, QUIET, a_lease(), ReleaseHold(ReleaseReason.POD_GONE), id="its-pod-is-gone"),
        pytest.param(
            a_holder(uid="u2"), QUIET, a_lease(), ReleaseHold(ReleaseReason.POD_REPLACED), id="another-has-its-name"
        ),
        pytest.param(
            bound(0, uid="u2"),
            QUIET,
            a_lease(),
            ReleaseHold(ReleaseReason.POD_REPLACED),
            id="another-has-its-name-and-its-gpu",
        ),
        pytest.param(
            bound(0, over=True), QUIET, a_lease(), ReleaseHold(ReleaseReason.POD_FINISHED), id="its-pod-is-finished"
        ),
        pytest.param(bound(1, 2), QUIET, a_lease(), ReleaseHold(ReleaseReason.NOT_ALLOCATED), id="bound-to-other-gpus"),
        pytest.param(bound(), QUIET, a_lease(), ReleaseHold(ReleaseReason.NOT_ALLOCATED), id="bound-without-gpus"),
        pytest.param(
            bound(0, node="b"), QUIET, a_lease(), ReleaseHold(ReleaseReason.NOT_ALLOCATED), id="bound-to-another-node"
        ),
        pytest.param(bound(0, 1), QUIET, a_lease(renewed=0), KeepHold(KeepReason.POD_IS_BOUND), id="bound-for-ages"),
        pytest.param(
            bound(0), NO_NODE, a_lease(renewed=0), KeepHold(KeepReason.POD_IS_BOUND), id="bound-and-the-node-is-gone"
        ),
        pytest.param(
            a_holder(node="node-a", devices=None),
            QUIET,
            a_lease(renewed=0),
            KeepHold(KeepReason.ALLOCATION_UNREADABLE),
            id="bound-to-nobody-knows-what",
        ),
        pytest.param(
            a_holder(),
            QUIET,
            a_lease(),
            KeepHold(KeepReason.POD_IS_PENDING, Instant(NOW + 60)),
            id="a-bind-may-be-under-way",
        ),
        pytest.param(
            a_holder(), QUIET, ABANDONED, FenceThenRelease(ReleaseReason.ABANDONED), id="nobody-goes-on-with-it"
        ),
        pytest.param(
            a_holder(), NO_NODE, a_lease(), FenceThenRelease(ReleaseReason.NODE_GONE), id="pending-and-no-node"
        ),
        pytest.param(None, NO_NODE, a_lease(), ReleaseHold(ReleaseReason.POD_GONE), id="neither-pod-nor-node"),
        pytest.param(
            None,
            seen_on("u1"),
            a_lease(),
            KeepHold(KeepReason.STILL_IN_USE, Instant(NOW + 90)),
            id="deleted-by-force-and-running",
        ),
        pytest.param(
            None, seen_on("u2"), a_lease(), ReleaseHold(ReleaseReason.POD_GONE), id="somebody-else-runs-there"
        ),
        pytest.param(
            None, seen_on("u1", device=1), a_lease(), ReleaseHold(ReleaseReason.POD_GONE), id="it-runs-on-another-gpu"
        ),
        pytest.param(
            None,
            seen_on("u1", reported_at=NOW - 90),
            a_lease(),
            ReleaseHold(ReleaseReason.POD_GONE),
            id="the-report-is-too-old",
        ),
        pytest.param(
            bound(1),
            seen_on("u1"),
            a_lease(),
            KeepHold(KeepReason.STILL_IN_USE, Instant(NOW + 90)),
            id="runs-where-it-was-not-put",
        ),
        pytest.param(
            bound(0, instances=("MIG-a",)),
            QUIET,
            SLICE,
            KeepHold(KeepReason.POD_IS_BOUND),
            id="bound-to-its-mig-instance",
        ),
        pytest.param(
            bound(0, instances=("MIG-b",)),
            QUIET,
            SLICE,
            ReleaseHold(ReleaseReason.NOT_ALLOCATED),
            id="bound-to-another-instance-of-the-gpu",
        ),
        pytest.param(
            bound(0), QUIET, SLICE, ReleaseHold(ReleaseReason.NOT_ALLOCATED), id="bound-to-the-gpu-and-not-the-instance"
        ),
        pytest.param(
            bound(0, instances=("MIG-a",)),
            QUIET,
            a_lease(),
            ReleaseHold(ReleaseReason.NOT_ALLOCATED),
            id="bound-to-an-instance-and-not-the-gpu",
        ),
        pytest.param(
            None,
            seen_on("u1"),
            SLICE,
            KeepHold(KeepReason.STILL_IN_USE, Instant(NOW + 90)),
            id="instance-of-a-dead-pod-that-runs",
        ),
    ],
)
def test_what_becomes_of_a_hold(
    pod: HolderPod | None, node_facts: LeaseNodeFacts, lease: GpuLease, expected: Judgement
) -> None:
    assert decide_hold(lease, lease.holds[0], pod, node_facts, now=NOW) == expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            a_holder(), ReleaseHold(ReleaseReason.ABANDONED), id="still-pending-and-can-not-be-bound-any-more"
        ),
        pytest.param(bound(0), KeepHold(KeepReason.POD_IS_BOUND), id="was-bound-just-before"),
        pytest.param(bound(3), ReleaseHold(ReleaseReason.NOT_ALLOCATED), id="was-bound-elsewhere-just-before"),
        pytest.param(None, ReleaseHold(ReleaseReason.POD_GONE), id="went-meanwhile"),
    ],
)
def test_what_the_fence_finds_decides(pod: HolderPod | None, expected: KeepHold | ReleaseHold) -> None:
    assert decide_fenced(ABANDONED, LeaseHold("u1"), pod, QUIET, now=NOW) == expected


UIDS = st.sampled_from(["u1", "u2", "u3"])
NODES = st.sampled_from(["node-a", "node-b"])
IDS = st.integers(0, 3)
TIMES = st.floats(0, 2000, allow_nan=False)
LEASES = st.builds(
    lambda uid, renewed, device, node: a_lease(LeaseHold(uid), renewed=renewed, device=device, node=node),
    UIDS,
    TIMES,
    IDS,
    NODES,
)
PODS = st.builds(
    a_holder,
    uid=UIDS,
    node=st.one_of(st.just(""), NODES),
    over=st.booleans(),
    devices=st.one_of(st.none(), st.lists(IDS, unique=True).map(tuple)),
)
INVENTORIES = st.builds(
    lambda at, uids, device: Inventory(
        node="node-a",
        reported_at=at,
        devices=(Device(id=device, uuid="g", model="m", memory=Bytes(1), in_use_by=uids),),
    ),
    TIMES,
    st.lists(UIDS).map(tuple),
    IDS,
)
NODE_FACTS = st.builds(LeaseNodeFacts, st.booleans(), st.none() | INVENTORIES)


@given(lease=LEASES, pod=st.none() | PODS, node_facts=NODE_FACTS, now=TIMES)
def test_laws_of_sweeping(lease: GpuLease, pod: HolderPod | None, node_facts: LeaseNodeFacts, now: float) -> None:
    (hold,) = lease.holds
    found = decide_hold(lease, hold, pod, node_facts, now=Instant(now))
    fenced = decide_fenced(lease, hold, pod, node_facts, now=Instant(now))
    mine = pod is not None and pod.uid == hold.uid and not pod.over
    if mine and pod is not None:
        if pod.node == lease.node and pod.devices is not None and lease.device in pod.devices:
            assert isinstance(fenced, KeepHold), "a live bound pod's GPU is never freed"
        if not pod.node:
            assert not isinstance(found, ReleaseHold), "what a pending pod holds is never freed without a fence"
    if isinstance(found, FenceThenRelease):
        assert mine
        assert pod is not None
        assert not pod.node
    if isinstance(found, KeepHold) and found.again_at is not None:
        assert found.again_at > now, "a look again that would say the same at once is a busy loop"
    if not mine:
        later = decide_hold(lease, hold, pod, node_facts, now=Instant(now + LeaseGcPolicy().report_counts_for + 2000))
        assert isinstance(later, ReleaseHold), "what is dead is free in the end"
