"""Which holds on GPUs are over: the table of cases, and the laws that hold for all of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.decide.sweep import (
    FenceThenFree,
    Free,
    Freeing,
    Ground,
    Judgement,
    Keep,
    Keeping,
    SweepPolicy,
    judge,
    judge_fenced,
)
from ullage.model.device import Device, Inventory
from ullage.model.event import ObjectKey
from ullage.model.lease import GpuLease, Hold, HolderPod

NOW = 1000.0
KEY = ObjectKey("default", "p")


def a_lease(*holds: Hold, renewed: float = NOW, device: int = 0, node: str = "node-a") -> GpuLease:
    held = holds or (Hold("u1"),)
    return GpuLease(
        name=f"gpu-{node}-{device}",
        node=node,
        device=device,
        holds=held,
        shared=len(held) > 1,
        renewed=renewed,
        resource_version="7",
        pod=KEY,
    )


def a_holder(**facts: Any) -> HolderPod:
    return HolderPod(
        **{"key": KEY, "uid": "u1", "resource_version": "5", "node": "", "over": False, "devices": (), **facts}
    )


def bound(*devices: int, node: str = "node-a", **facts: Any) -> HolderPod:
    return a_holder(node=node, devices=devices, **facts)


def seen_on(*uids: str, device: int = 0, reported_at: float = NOW) -> Ground:
    gpu = Device(id=device, uuid="GPU-0", model="H100", memory=1, in_use_by=uids)
    return Ground(True, Inventory(node="node-a", reported_at=reported_at, devices=(gpu,)))


QUIET, NO_NODE = Ground(True), Ground(False)
ABANDONED = a_lease(renewed=NOW - 60)


@pytest.mark.parametrize(
    ("pod", "ground", "lease", "expected"),
    [
        pytest.param(None, QUIET, a_lease(), Free(Freeing.POD_GONE), id="its-pod-is-gone"),
        pytest.param(a_holder(uid="u2"), QUIET, a_lease(), Free(Freeing.POD_REPLACED), id="another-has-its-name"),
        pytest.param(
            bound(0, uid="u2"), QUIET, a_lease(), Free(Freeing.POD_REPLACED), id="another-has-its-name-and-its-gpu"
        ),
        pytest.param(bound(0, over=True), QUIET, a_lease(), Free(Freeing.POD_FINISHED), id="its-pod-is-finished"),
        pytest.param(bound(1, 2), QUIET, a_lease(), Free(Freeing.NOT_ALLOCATED), id="bound-to-other-gpus"),
        pytest.param(bound(), QUIET, a_lease(), Free(Freeing.NOT_ALLOCATED), id="bound-without-gpus"),
        pytest.param(bound(0, node="b"), QUIET, a_lease(), Free(Freeing.NOT_ALLOCATED), id="bound-to-another-node"),
        pytest.param(bound(0, 1), QUIET, a_lease(renewed=0), Keep(Keeping.POD_IS_BOUND), id="bound-for-ages"),
        pytest.param(
            bound(0), NO_NODE, a_lease(renewed=0), Keep(Keeping.POD_IS_BOUND), id="bound-and-the-node-is-gone"
        ),
        pytest.param(
            a_holder(node="node-a", devices=None),
            QUIET,
            a_lease(renewed=0),
            Keep(Keeping.ALLOCATION_UNREADABLE),
            id="bound-to-nobody-knows-what",
        ),
        pytest.param(
            a_holder(), QUIET, a_lease(), Keep(Keeping.POD_IS_PENDING, NOW + 60), id="a-bind-may-be-under-way"
        ),
        pytest.param(a_holder(), QUIET, ABANDONED, FenceThenFree(Freeing.ABANDONED), id="nobody-goes-on-with-it"),
        pytest.param(a_holder(), NO_NODE, a_lease(), FenceThenFree(Freeing.NODE_GONE), id="pending-and-no-node"),
        pytest.param(None, NO_NODE, a_lease(), Free(Freeing.POD_GONE), id="neither-pod-nor-node"),
        pytest.param(
            None, seen_on("u1"), a_lease(), Keep(Keeping.STILL_IN_USE, NOW + 90), id="deleted-by-force-and-running"
        ),
        pytest.param(None, seen_on("u2"), a_lease(), Free(Freeing.POD_GONE), id="somebody-else-runs-there"),
        pytest.param(None, seen_on("u1", device=1), a_lease(), Free(Freeing.POD_GONE), id="it-runs-on-another-gpu"),
        pytest.param(
            None, seen_on("u1", reported_at=NOW - 90), a_lease(), Free(Freeing.POD_GONE), id="the-report-is-too-old"
        ),
        pytest.param(
            bound(1), seen_on("u1"), a_lease(), Keep(Keeping.STILL_IN_USE, NOW + 90), id="runs-where-it-was-not-put"
        ),
    ],
)
def test_what_becomes_of_a_hold(pod: HolderPod | None, ground: Ground, lease: GpuLease, expected: Judgement) -> None:
    assert judge(lease, lease.holds[0], pod, ground, now=NOW) == expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_holder(), Free(Freeing.ABANDONED), id="still-pending-and-can-not-be-bound-any-more"),
        pytest.param(bound(0), Keep(Keeping.POD_IS_BOUND), id="was-bound-just-before"),
        pytest.param(bound(3), Free(Freeing.NOT_ALLOCATED), id="was-bound-elsewhere-just-before"),
        pytest.param(None, Free(Freeing.POD_GONE), id="went-meanwhile"),
    ],
)
def test_what_the_fence_finds_decides(pod: HolderPod | None, expected: Keep | Free) -> None:
    assert judge_fenced(ABANDONED, Hold("u1"), pod, QUIET, now=NOW) == expected


UIDS = st.sampled_from(["u1", "u2", "u3"])
NODES = st.sampled_from(["node-a", "node-b"])
IDS = st.integers(0, 3)
TIMES = st.floats(0, 2000, allow_nan=False)
LEASES = st.builds(
    lambda uid, renewed, device, node: a_lease(Hold(uid), renewed=renewed, device=device, node=node),
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
        node="node-a", reported_at=at, devices=(Device(id=device, uuid="g", model="m", memory=1, in_use_by=uids),)
    ),
    TIMES,
    st.lists(UIDS).map(tuple),
    IDS,
)
GROUNDS = st.builds(Ground, st.booleans(), st.none() | INVENTORIES)


@given(lease=LEASES, pod=st.none() | PODS, ground=GROUNDS, now=TIMES)
def test_laws_of_sweeping(lease: GpuLease, pod: HolderPod | None, ground: Ground, now: float) -> None:
    (hold,) = lease.holds
    found = judge(lease, hold, pod, ground, now=now)
    fenced = judge_fenced(lease, hold, pod, ground, now=now)
    mine = pod is not None and pod.uid == hold.uid and not pod.over
    if mine and pod is not None:
        if pod.node == lease.node and pod.devices is not None and lease.device in pod.devices:
            assert isinstance(fenced, Keep), "a live bound pod's GPU is never freed"
        if not pod.node:
            assert not isinstance(found, Free), "what a pending pod holds is never freed without a fence"
    if isinstance(found, FenceThenFree):
        assert mine
        assert pod is not None
        assert not pod.node
    if isinstance(found, Keep) and found.again_at is not None:
        assert found.again_at > now, "a look again that would say the same at once is a busy loop"
    if not mine:
        later = judge(lease, hold, pod, ground, now=now + SweepPolicy().report_counts_for + 2000)
        assert isinstance(later, Free), "what is dead is free in the end"
