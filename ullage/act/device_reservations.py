"""Withhold leased GPUs from Dynamic Resource Allocation (DRA).

kube-scheduler allocates no device that an allocated ResourceClaim names. Nothing else prevents it reliably (a
DeviceTaintRule is off by default, and any claim can tolerate it). So each leased GPU that a DRA driver publishes has a
ResourceClaim of ours beside its Lease, allocated to that device and used by no pod. It is owned by the Leases of the
GPU; the garbage collector deletes it when they are gone, whichever component released them.

kube-scheduler keeps a *set* of allocated devices: after one of two claims on one device is deleted, the device counts
as free. So a GPU has one claim of ours, which the next Lease takes over. That claim is not allocated while another
claim has the device.
"""

from collections.abc import Iterator, Sequence

from ullage import errors
from ullage.act.leases import HeldLease
from ullage.kube.client.api import Deletion, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import LEASES, RESOURCE_CLAIMS
from ullage.kube.client.watch_decoder import closed_after
from ullage.kube.objects.dra import KubeResourceClaim
from ullage.kube.objects.policy import Lease
from ullage.kube.read.dra import DRIVER, RESERVATION, allocated_devices
from ullage.kube.read.leases import DEVICE, NODE
from ullage.model.allocation import lease_name
from ullage.model.dra import AllocatedDevice, WithheldGpu
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindPod

_ATTEMPTS = 8
_REQUEST = "leased"


class DeviceReservations:
    """Keeps no state: the ResourceClaims on the API server are the state."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._claims: Resource[KubeResourceClaim] | None = None

    async def withhold(self, action: BindPod, holdings: Sequence[HeldLease]) -> ObjectKey | None:
        """Withhold the action's GPUs. Returns the ResourceClaim of another owner that has one of them, None on success.

        Raises ApiError where the API could not be reached, or refuses.
        """
        if not action.withheld:
            return None
        claims = await self._served()
        open_ones = [gpu for gpu in action.withheld if not await self._adopted(claims, action.node, gpu, holdings)]
        if open_ones and (other := await self._given_to(claims, action.node, open_ones)):
            return other
        for gpu in open_ones:
            await self._allocate(claims, action.node, gpu)
        return None

    async def _adopted(
        self, claims: Resource[KubeResourceClaim], node: str, gpu: WithheldGpu, holdings: Sequence[HeldLease]
    ) -> bool:
        """Make sure that the GPU's claim exists and its Leases own it. True if it is allocated already."""
        owners = [await self._owner(one) for one in holdings if one.device == gpu.device]
        because: errors.ApiError = errors.Conflict(f"resourceclaim {_name(node, gpu)}: others were always faster")
        for _ in range(_ATTEMPTS):
            try:
                there = await self._api.get(claims.whole(), _name(node, gpu), self._namespace)
            except errors.NotFound:
                there = None
            try:
                if there is None:
                    await self._api.create(claims, _body(claims, node, gpu, owners), self._namespace)
                    return False
                if await self._taken_over(claims, there, node, gpu, owners):
                    return bool(there.get("status", {}).get("allocation"))
            except (errors.Conflict, errors.AlreadyExists, errors.NotFound) as error:
                because = error
        raise because

    async def _taken_over(
        self,
        claims: Resource[KubeResourceClaim],
        there: JsonObject,
        node: str,
        gpu: WithheldGpu,
        owners: Sequence[JsonObject],
    ) -> bool:
        """Add these Leases as owners. True on success.

        A claim being deleted, or allocated to device names the driver no longer uses, is deleted instead: False.
        """
        meta, given = there["metadata"], there.get("status", {}).get("allocation")
        if meta.get("deletionTimestamp") or (given and _named(given) != _named(_allocation(node, gpu))):
            how = Deletion(uid=meta["uid"], resource_version=meta["resourceVersion"])
            await self._api.delete(claims, meta["name"], self._namespace, how=how)
            return False
        known = meta.get("ownerReferences", [])
        uids = {owner["uid"] for owner in known}
        missing = [owner for owner in owners if owner["uid"] not in uids]
        if missing:
            body = {"resourceVersion": meta["resourceVersion"], "ownerReferences": [*known, *missing]}
            await self._api.patch(claims, meta["name"], MergePatch({"metadata": body}), self._namespace)
        return True

    async def _owner(self, holding: HeldLease) -> JsonObject:
        lease: Lease = await self._api.get(LEASES, holding.name, self._namespace)
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "name": holding.name, "uid": lease.metadata.uid}

    async def _given_to(
        self, claims: Resource[KubeResourceClaim], node: str, gpus: Sequence[WithheldGpu]
    ) -> ObjectKey | None:
        """ResourceClaim of another owner that has one of these GPUs, from a fresh list."""
        ours, wanted = {_name(node, gpu) for gpu in gpus}, {device for gpu in gpus for device in _devices(node, gpu)}
        pages = self._api.pages(claims)
        async with closed_after(pages):
            async for page in pages:
                for claim in page.items:
                    meta, given = claim.metadata, claim.status.allocation
                    if meta.namespace == self._namespace and meta.name in ours:
                        continue
                    if given is not None and wanted.intersection(allocated_devices(given)):
                        return ObjectKey(meta.namespace, meta.name)
        return None

    async def _allocate(self, claims: Resource[KubeResourceClaim], node: str, gpu: WithheldGpu) -> None:
        status = {"status": {"allocation": _allocation(node, gpu)}}
        await self._api.patch(claims, _name(node, gpu), MergePatch(status), self._namespace, subresource="status")

    async def _served(self) -> Resource[KubeResourceClaim]:
        if self._claims is None:
            served = await self._api.discover()
            found = next((claims for claims in RESOURCE_CLAIMS if claims in served), None)
            if found is None:
                raise errors.NotFound("the server does not serve ResourceClaims any more")
            self._claims = found
        return self._claims


def _name(node: str, gpu: WithheldGpu) -> str:
    return lease_name(node, gpu.device)


def _devices(node: str, gpu: WithheldGpu) -> Iterator[AllocatedDevice]:
    return (AllocatedDevice(node, pool, name) for pool, name in gpu.names)


def _body(claims: Resource[KubeResourceClaim], node: str, gpu: WithheldGpu, owners: Sequence[JsonObject]) -> JsonObject:
    asked = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": len(gpu.names)}
    request = {"name": _REQUEST} | (asked if claims.version == "v1beta1" else {"exactly": asked})
    meta = {
        "name": _name(node, gpu),
        "labels": {RESERVATION: "true"},
        "annotations": {NODE: node, DEVICE: str(gpu.device)},
        "ownerReferences": list(owners),
    }
    return {"metadata": meta, "spec": {"devices": {"requests": [request]}}}


def _allocation(node: str, gpu: WithheldGpu) -> JsonObject:
    results = [{"request": _REQUEST, "driver": DRIVER, "pool": pool, "device": name} for pool, name in gpu.names]
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]}}


def _named(allocation: JsonObject) -> set[tuple[str, str]]:
    return {(one["pool"], one["device"]) for one in allocation["devices"]["results"]}
