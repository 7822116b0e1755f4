"""The checker of placements finds what is broken: a sound reading, and every way to break it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from ullage.kube.objects.gpu import (
    ClaimTopology,
    CoschedulingPodGroup,
    GpuClaim,
    GpuClaimDevices,
    GpuClaimSpec,
    GpuClaimStatus,
    PodGroupSpec,
)
from ullage.kube.objects.meta import Condition, ObjectMeta, OwnerReference
from ullage.model.device import Device, Inventory
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.pod import Phase, Pod
from ullage.model.units import Bytes, Instant, Milli
from ullage.testing.checks.claims import claim_breaches, gang_breaches
from ullage.testing.checks.placement import PlacementReading, breaches
from ullage.testing.facts import lease_fact, pod_fact

H100 = "NVIDIA H100 80GB HBM3"


def a_pod(name: str, *gpus: int, node: str = "n", **facts: Any) -> Pod:
    default = {"phase": Phase.RUNNING if node else Phase.PENDING, "gpu_share": 1000}
    return pod_fact(name, node=node, scheduler="s", gpu_ids=gpus, **default | facts)


def a_lease(gpu: int, *holders: str, node: str = "n", milli: int = 1000) -> GpuLease:
    return lease_fact(gpu, *(LeaseHold(f"uid-{name}", Milli(milli)) for name in holders), node=node)


def a_claim(name: str, status: GpuClaimStatus, *, gang: str = "", topology: str = "Required", **ask: Any) -> GpuClaim:
    return GpuClaim(
        metadata=ObjectMeta(name=name, namespace="default", generation=1),
        spec=GpuClaimSpec(devices=GpuClaimDevices(**ask), gang_ref=gang, topology=ClaimTopology(mode=topology)),
        status=status,
    )


def bound_to(*gpus: int, node: str = "n") -> GpuClaimStatus:
    allocated = f"{node}:{','.join(map(str, gpus))}"
    return GpuClaimStatus(
        phase="Bound",
        node_name=node,
        gpu_ids=gpus,
        allocated=allocated,
        message="it is there",
        conditions=(Condition(type="Allocated", status="True"),),
        observed_generation=1,
    )


PENDING = GpuClaimStatus(
    phase="Pending",
    message="it waits",
    conditions=(Condition(type="Allocated", status="False"),),
    observed_generation=1,
)


def notes_of(name: str, *gpus: int) -> dict[str, str]:
    given = {
        "gpu.scheduling/allocated": f"n:{','.join(map(str, gpus))}",
        "gpu.scheduling/visible-devices": ",".join(f"GPU-{gpu}" for gpu in gpus),
    }
    return {"gpu.scheduling/claim": name} | (given if gpus else {})


def a_reading() -> PlacementReading:
    """Two pods of a gang with two GPUs of an island each, one that waits for one, and a claim nobody uses."""
    devices = tuple(
        Device(id=gpu, uuid=f"GPU-{gpu}", model=H100, memory=Bytes(1), island=f"nvlink-{gpu // 4}") for gpu in range(8)
    )
    return PlacementReading(
        pods=[a_pod("a", 0, 1), a_pod("b", 4, 5), a_pod("c", node="")],
        leases=[a_lease(0, "a"), a_lease(1, "a"), a_lease(4, "b"), a_lease(5, "b")],
        inventories=[Inventory(node="n", reported_at=Instant(0.0), devices=devices)],
        notes={"uid-a": notes_of("a", 0, 1), "uid-b": notes_of("b", 4, 5), "uid-c": notes_of("c")},
        claims=[
            a_claim("a", bound_to(0, 1), gang="g", count=2),
            a_claim("b", bound_to(4, 5), gang="g", count=2),
            a_claim("c", PENDING, count=1),
            a_claim("unused", PENDING, count=1),
        ],
        groups=[
            CoschedulingPodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=PodGroupSpec(min_member=2)),
        ],
    )


def everything_wrong(reading: PlacementReading) -> list[str]:
    return [*breaches(reading), *claim_breaches(reading), *gang_breaches(reading)]


def test_a_sound_reading_has_no_breach() -> None:
    assert everything_wrong(a_reading()) == []


def pods(*replacing: Pod) -> Callable[[PlacementReading], PlacementReading]:
    by_uid = {pod.uid: pod for pod in replacing}
    return lambda reading: replace(reading, pods=[by_uid.get(pod.uid, pod) for pod in reading.pods])


def without_pod(name: str) -> Callable[[PlacementReading], PlacementReading]:
    return lambda reading: replace(reading, pods=[pod for pod in reading.pods if pod.key.name != name])


def leases(*replacing: GpuLease) -> Callable[[PlacementReading], PlacementReading]:
    by_name = {lease.name: lease for lease in replacing}
    return lambda reading: replace(
        reading, leases=[*(one for one in reading.leases if one.name not in by_name), *replacing]
    )


def without_lease(gpu: int) -> Callable[[PlacementReading], PlacementReading]:
    return lambda reading: replace(reading, leases=[one for one in reading.leases if one.device != gpu])


def note(name: str, **written: str) -> Callable[[PlacementReading], PlacementReading]:
    def change(reading: PlacementReading) -> PlacementReading:
        uid = f"uid-{name}"
        words = {f"gpu.scheduling/{key.replace('_', '-')}": value for key, value in written.items()}
        return replace(reading, notes={**reading.notes, uid: {**reading.notes[uid], **words}})

    return change


def claim(name: str, **fields: Any) -> Callable[[PlacementReading], PlacementReading]:
    """Fields of its status, or a whole spec."""

    def change(reading: PlacementReading) -> PlacementReading:
        return replace(reading, claims=[one if one.metadata.name != name else edited(one) for one in reading.claims])

    def edited(one: GpuClaim) -> GpuClaim:
        if "spec" in fields:
            return changed(one, spec=changed(one.spec, **fields["spec"]))
        return changed(one, status=changed(one.status, **fields))

    return change


def both(*changes: Callable[[PlacementReading], PlacementReading]) -> Callable[[PlacementReading], PlacementReading]:
    def change(reading: PlacementReading) -> PlacementReading:
        for one in changes:
            reading = one(reading)
        return reading

    return change


BROKEN_PLACEMENTS = [
    pytest.param(
        both(pods(a_pod("b", 1, 4)), leases(a_lease(1, "a", "b"), a_lease(4, "b"))),
        "GPU 1 of n is given to default/a, default/b",
        id="two-pods-have-one-gpu",
    ),
    pytest.param(
        pods(a_pod("a", 0, gpu_share=600), a_pod("b", 0, gpu_share=600)), "GPU 0 of n is given to", id="shares-exceed"
    ),
    pytest.param(without_lease(1), "default/a has GPU 1 of n, leased to []", id="given-and-not-leased"),
    pytest.param(leases(a_lease(1, "b")), "default/a has GPU 1 of n, leased to ['uid-b']", id="leased-to-another"),
    pytest.param(leases(a_lease(7, "ghost")), "gpu-n-7 is held by uid-ghost, which is gone", id="dead-holder"),
    pytest.param(leases(a_lease(7, "a")), "gpu-n-7 is held by default/a, which is on n", id="holds-more-than-given"),
    pytest.param(
        pods(a_pod("a", 0, 1, phase=Phase.SUCCEEDED)), "held by uid-a, which is gone", id="holder-has-finished"
    ),
    pytest.param(pods(a_pod("b", 4, 9)), "has GPU 9 of n, which is not there", id="no-such-device"),
    pytest.param(note("a", allocated="n:0,2"), "has the note 'n:0,2', and was given 'n:0,1'", id="note-differs"),
    pytest.param(note("a", allocated=""), "has the note '', and was given 'n:0,1'", id="note-is-missing"),
    pytest.param(note("a", visible_devices="GPU-1,GPU-0"), "is to see 'GPU-1,GPU-0'", id="sees-them-in-another-order"),
    pytest.param(note("c", allocated="n:3"), "default/c is on no node and has the note n:3", id="note-without-a-node"),
]

BROKEN_CLAIMS = [
    pytest.param(claim("a", phase="Pending"), "claim default/a says ('Pending'", id="bound-and-says-pending"),
    pytest.param(claim("a", gpu_ids=(0, 2)), "makes it ('Bound', 'n', (0, 1), 'n:0,1')", id="says-other-gpus"),
    pytest.param(claim("a", allocated="m:0,1"), "claim default/a says", id="says-another-node"),
    pytest.param(claim("c", gpu_ids=(3,)), "and its pod is on no node", id="pending-and-says-it-holds"),
    pytest.param(claim("c", phase="Bound"), "and its pod is on no node", id="pending-and-says-bound"),
    pytest.param(claim("c", phase=""), "does not say how it stands", id="says-nothing-and-its-pod-waits"),
    pytest.param(
        claim("c", phase="Reserved", node_name="n", gpu_ids=(3,), allocated="n:3"),
        "no such lease is held for its pod",
        id="reserved-without-a-lease",
    ),
    pytest.param(without_pod("b"), "claim default/b says ('Bound', 'n', (4, 5), 'n:4,5'), and no pod", id="pod-gone"),
    pytest.param(
        pods(a_pod("b", 4, 5, phase=Phase.FAILED)), "claim default/b says ('Bound'", id="pod-over-and-says-bound"
    ),
    pytest.param(claim("a", observed_generation=0), "speaks of generation 0 and is at 1", id="speaks-of-an-old-spec"),
    pytest.param(
        claim("a", conditions=(Condition(type="Allocated", status="False"),)),
        "its condition Allocated says otherwise",
        id="condition-contradicts-the-phase",
    ),
    pytest.param(
        both(pods(a_pod("a", 0, 4)), claim("a", gpu_ids=(0, 4), allocated="n:0,4")),
        "in 2 islands, and its claim requires one",
        id="required-and-spans-islands",
    ),
    pytest.param(
        claim("a", spec={"devices": GpuClaimDevices(count=3)}), "and its claim asks for 3", id="fewer-than-asked-for"
    ),
    pytest.param(
        claim("a", spec={"devices": GpuClaimDevices(count=2, policy="preferIds", prefer_ids=(2, 3))}),
        "and its claim asks for (2, 3)",
        id="not-the-preferred-ones",
    ),
    pytest.param(
        claim("a", spec={"devices": GpuClaimDevices(count=2, model="A100")}), "and its claim asks for A100", id="model"
    ),
    pytest.param(note("b", claim="a"), "claim default/a is used by default/a and default/b", id="one-claim-two-pods"),
]

BROKEN_GANGS = [
    pytest.param(pods(a_pod("b", node="")), "gang default/g needs 2 and has 1 of 2", id="half-of-it-waits"),
    pytest.param(without_pod("b"), "gang default/g needs 2 and has 1 of 1", id="half-of-it-is-gone"),
    pytest.param(pods(a_pod("b", 4, 5, phase=Phase.FAILED)), "needs 2 and has 1 of 2", id="half-of-it-has-failed"),
]


@pytest.mark.parametrize(("spoil", "says"), BROKEN_PLACEMENTS)
def test_a_broken_placement_is_found(spoil: Callable[[PlacementReading], PlacementReading], says: str) -> None:
    assert any(says in sentence for sentence in breaches(spoil(a_reading())))


@pytest.mark.parametrize(("spoil", "says"), BROKEN_CLAIMS)
def test_a_claim_that_is_not_true_is_found(spoil: Callable[[PlacementReading], PlacementReading], says: str) -> None:
    assert any(says in sentence for sentence in claim_breaches(spoil(a_reading())))


@pytest.mark.parametrize(("spoil", "says"), BROKEN_GANGS)
def test_a_gang_in_part_is_found(spoil: Callable[[PlacementReading], PlacementReading], says: str) -> None:
    assert [says in sentence for sentence in gang_breaches(spoil(a_reading()))] == [True]


@pytest.mark.parametrize(
    "fine",
    [
        pytest.param(both(pods(a_pod("a", node=""), a_pod("b", node=""))), id="all-of-it-waits"),
        pytest.param(pods(a_pod("b", 4, 5, phase=Phase.SUCCEEDED)), id="one-has-done-its-part"),
    ],
)
def test_a_gang_that_is_whole_or_absent_is_fine(fine: Callable[[PlacementReading], PlacementReading]) -> None:
    assert list(gang_breaches(fine(a_reading()))) == []


def test_a_copy_made_for_a_pod_is_that_pods_claim() -> None:
    reading = a_reading()
    owner = OwnerReference(api_version="v1", kind="Pod", name="a", uid="uid-a", controller=True)
    meta = ObjectMeta(
        name="copy",
        namespace="default",
        generation=1,
        annotations={"gpu.scheduling/template": "t"},
        owner_references=(owner,),
    )
    notes = {"gpu.scheduling/claim-template": "t"}
    copied = replace(
        reading,
        notes={**reading.notes, "uid-a": notes},
        claims=[changed(reading.claims[0], metadata=meta), *reading.claims[1:]],
    )
    assert list(claim_breaches(copied)) == []
    assert any("claim default/copy says" in one for one in claim_breaches(claim("copy", gpu_ids=(0, 3))(copied)))
