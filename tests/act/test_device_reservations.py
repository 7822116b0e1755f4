"""Leased GPUs that a DRA driver publishes, too: withheld as long as they are leased, in both worlds."""

from typing import Any

from tests.contract.expect import eventually
from ullage.act.bind import PodBinder
from ullage.act.leases import LeaseClient, LeaseHolder, LeaseRequest
from ullage.clock import WallClock
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import LEASES, PODS, RESOURCE_CLAIMS
from ullage.model.dra import WithheldGpu
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindPod
from ullage.model.outcomes import BindFailure, PodBound, PodNotBound
from ullage.testing.builders import a_pod

CLAIMS = RESOURCE_CLAIMS[0].whole()


async def a_place(api: KubeApi, ns: str, *devices: int, name: str = "p", names: str = "gpu") -> BindPod:
    pod = await api.create(PODS, a_pod(name), ns)
    return BindPod(
        pod=ObjectKey(ns, name),
        uid=pod.metadata.uid,
        resource_version=pod.metadata.resource_version,
        node=f"{ns}-node",
        why="a test",
        devices=devices,
        visible=tuple(f"GPU-{device}" for device in devices),
        withheld=tuple(WithheldGpu(device, ((f"{ns}-node", f"{names}-{device}"),)) for device in devices),
    )


def hands(api: KubeApi, ns: str) -> PodBinder:
    return PodBinder(api, LeaseClient(api, ns, WallClock()))


async def reservations(api: KubeApi, ns: str) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in (await api.list(CLAIMS, ns)).items}


def devices_of(claim: dict[str, Any]) -> list[str]:
    return [one["device"] for one in claim["status"]["allocation"]["devices"]["results"]]


async def test_each_leased_gpu_has_a_claim_that_its_lease_owns(api: KubeApi, ns: str) -> None:
    place = await a_place(api, ns, 0, 3)
    assert isinstance(await hands(api, ns).perform(place), PodBound)
    leases = {one.metadata.name: one.metadata.uid for one in (await api.list(LEASES, ns)).items}
    claims = await reservations(api, ns)
    assert claims.keys() == leases.keys()
    assert {
        name: [owner["uid"] for owner in claim["metadata"]["ownerReferences"]] for name, claim in claims.items()
    } == {name: [uid] for name, uid in leases.items()}
    assert sorted(name for claim in claims.values() for name in devices_of(claim)) == ["gpu-0", "gpu-3"]
    assert all("reservedFor" not in claim["status"] for claim in claims.values())


async def test_the_next_lease_takes_the_claim_over_without_letting_go(api: KubeApi, ns: str) -> None:
    first = await a_place(api, ns, 0, name="first")
    assert isinstance(await hands(api, ns).perform(first), PodBound)
    before = await reservations(api, ns)
    await api.delete(PODS, "first", ns)
    await api.delete(LEASES, next(iter(before)), ns)
    second = await a_place(api, ns, 0, name="second")
    assert isinstance(await hands(api, ns).perform(second), PodBound)
    after = await reservations(api, ns)
    assert {name: claim["metadata"]["uid"] for name, claim in after.items()} == {
        name: claim["metadata"]["uid"] for name, claim in before.items()
    }
    lease = (await api.get(LEASES, next(iter(after)), ns)).metadata.uid
    assert lease in [owner["uid"] for owner in after[next(iter(after))]["metadata"]["ownerReferences"]]


async def test_a_claim_for_names_the_driver_no_longer_uses_is_made_anew(api: KubeApi, ns: str) -> None:
    old = await a_place(api, ns, 0, name="old", names="renamed")
    assert isinstance(await hands(api, ns).perform(old), PodBound)
    name = next(iter(await reservations(api, ns)))
    await api.delete(PODS, "old", ns)
    await api.delete(LEASES, name, ns)
    assert isinstance(await hands(api, ns).perform(await a_place(api, ns, 0, name="new")), PodBound)
    assert devices_of((await reservations(api, ns))[name]) == ["gpu-0"]


async def test_a_gpu_that_a_resource_claim_has_is_not_taken_and_nothing_is_left(api: KubeApi, ns: str) -> None:
    place = await a_place(api, ns, 0, 1)
    request = {
        "name": "r",
        "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1},
    }
    await api.create(CLAIMS, {"metadata": {"name": "theirs"}, "spec": {"devices": {"requests": [request]}}}, ns)
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": f"{ns}-node", "device": "gpu-1"}
    here = {"key": "metadata.name", "operator": "In", "values": [f"{ns}-node"]}
    given = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]}}
    await api.patch(CLAIMS, "theirs", MergePatch({"status": {"allocation": given}}), ns, subresource="status")
    outcome = await hands(api, ns).perform(place)
    assert isinstance(outcome, PodNotBound)
    assert (outcome.setback, outcome.leaked) == (BindFailure.GPU_TAKEN, False)
    assert f"ResourceClaim {ns}/theirs" in outcome.detail
    assert (await api.list(LEASES, ns)).items in ([], ())
    ours = [one for one in (await reservations(api, ns)).values() if one["metadata"]["name"] != "theirs"]
    assert all("allocation" not in one.get("status", {}) for one in ours), "never two claims on one device"


async def test_a_placement_begun_twice_is_one(api: KubeApi, ns: str) -> None:
    place = await a_place(api, ns, 0)
    book = LeaseClient(api, ns, WallClock())
    await book.reserve(LeaseHolder(place.pod, place.uid), LeaseRequest(place.node, place.devices))
    assert isinstance(await PodBinder(api, book).perform(place), PodBound)
    assert isinstance(await PodBinder(api, book).perform(place), PodBound)
    claims = await eventually(lambda: reservations(api, ns), until=lambda found: len(found) == 1, seconds=5)
    assert len(next(iter(claims.values()))["metadata"]["ownerReferences"]) == 1
