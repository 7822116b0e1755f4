"""Withhold leased GPUs from Dynamic Resource Allocation (DRA).

kube-scheduler allocates no device that an allocated ResourceClaim names. Nothing else prevents it reliably (a
DeviceTaintRule is off by default, and any claim can tolerate it). So each leased GPU that a DRA driver publishes has a
ResourceClaim of ours beside its Lease, allocated to that device and used by no pod. It is owned by the Leases of the
GPU; the garbage collector deletes it when they are gone, whichever component released them.

kube-scheduler keeps a *set* of allocated devices: after one of two claims on one device is deleted, the device counts
as free. So a GPU has one claim of ours, which the next Lease takes over. That claim is not allocated while another
claim has the device. A finalizer keeps it when somebody deletes it while the Lease stands; it is removed when the Lease
is gone (`release`). A claim that was emptied, or lost its finalizer and was deleted, is made again (`restore`).
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ullage import errors
from ullage.act.leases import HeldLease
from ullage.kube.client.api import Deletion, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import LEASES, RESOURCE_CLAIMS
from ullage.kube.client.watch_decoder import closed_after
from ullage.kube.objects.dra import KubeResourceClaim
from ullage.kube.objects.policy import Lease
from ullage.kube.read.dra import DRIVER, RESERVATION, RESERVATION_FINALIZER, allocated_devices
from ullage.kube.read.leases import DEVICE, NODE
from ullage.model.allocation import lease_name
from ullage.model.dra import AllocatedDevice, WithheldGpu
from ullage.model.fact_event import ObjectKey
from ullage.model.lease import GpuLease

_ATTEMPTS = 8
_REQUEST = "leased"


@dataclass(frozen=True, slots=True)
class Reserved:
    """The GPU of this Lease is withheld."""

    lease: GpuLease


@dataclass(frozen=True, slots=True)
class NotReserved:
    """A leased GPU has been allocated to a ResourceClaim of another owner: two pods may use it."""

    lease: GpuLease
    by: ObjectKey


class DeviceReservations:
    """Keeps no state: the ResourceClaims on the API server are the state."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self.namespace = namespace
        self._claims: Resource[KubeResourceClaim] | None = None

    async def withhold(self, node: str, gpus: Sequence[WithheldGpu], holdings: Sequence[HeldLease]) -> ObjectKey | None:
        """Withhold GPUs of a node. Returns the ResourceClaim of another owner that has one of them, None on success.

        Raises ApiError where the API could not be reached, or refuses.
        """
        if not gpus:
            return None
        claims = await self._served()
        open_ones = [(node, gpu) for gpu in gpus if not await self._adopted(claims, node, gpu, holdings)]
        others = await self._given(claims, open_ones) if open_ones else {}
        if others:
            return others[min(others)]
        for _, gpu in open_ones:
            await self._allocate(claims, node, gpu)
        return None

    async def restore(self, leased: Sequence[tuple[GpuLease, WithheldGpu]]) -> list[Reserved | NotReserved]:
        """Withhold the GPUs of Leases that stand. Those whose Lease is gone are left out."""
        claims = await self._served()
        open_ones: list[tuple[GpuLease, WithheldGpu]] = []
        found: list[Reserved | NotReserved] = []
        for lease, gpu in leased:
            try:
                done = await self._adopted(claims, lease.node, gpu, (HeldLease(lease.node, lease.device, ""),))
            except errors.NotFound:
                continue  # the Lease is gone
            if done:
                found.append(Reserved(lease))
            else:
                open_ones.append((lease, gpu))
        others = await self._given(claims, [(lease.node, gpu) for lease, gpu in open_ones]) if open_ones else {}
        for lease, gpu in open_ones:
            taken = sorted(others[device] for device in _devices(lease.node, gpu) if device in others)
            if taken:
                found.append(NotReserved(lease, taken[0]))
            else:
                await self._allocate(claims, lease.node, gpu)
                found.append(Reserved(lease))
        return found

    async def release(self, name: str) -> bool:
        """Let a claim go that is being deleted, if its Lease is gone. False if another client was faster."""
        claims = await self._served()
        with suppress(errors.NotFound):
            await self._api.get(LEASES, name, self.namespace)
            return True
        try:
            there = await self._api.get(claims.whole(), name, self.namespace)
            if there["metadata"].get("deletionTimestamp"):
                await self._unprotect(claims, there)
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        return True

    async def _unprotect(self, claims: Resource[KubeResourceClaim], there: JsonObject) -> None:
        meta = there["metadata"]
        if RESERVATION_FINALIZER not in meta.get("finalizers", ()):
            return
        others = [one for one in meta["finalizers"] if one != RESERVATION_FINALIZER]
        body = {"resourceVersion": meta["resourceVersion"], "finalizers": others}
        await self._api.patch(claims, meta["name"], MergePatch({"metadata": body}), self.namespace)

    async def _adopted(
        self, claims: Resource[KubeResourceClaim], node: str, gpu: WithheldGpu, holdings: Sequence[HeldLease]
    ) -> bool:
        """Make sure that the GPU's claim exists and its Leases own it. True if it is allocated already."""
        owners = [await self._owner(one) for one in holdings if one.device == gpu.device]
        because: errors.ApiError = errors.Conflict(f"resourceclaim {_name(node, gpu)}: others were always faster")
        for _ in range(_ATTEMPTS):
            try:
                there = await self._api.get(claims.whole(), _name(node, gpu), self.namespace)
            except errors.NotFound:
                there = None
            try:
                if there is None:
                    await self._api.create(claims, _body(claims, node, gpu, owners), self.namespace)
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

        A claim that is allocated to device names the driver no longer uses, or is being deleted without an allocation,
        is deleted instead: False.
        """
        meta, given = there["metadata"], there.get("status", {}).get("allocation")
        useless = _named(given) != _named(_allocation(node, gpu)) if given else meta.get("deletionTimestamp")
        if useless:
            await self._api.delete(claims, meta["name"], self.namespace, how=Deletion(uid=meta["uid"]))
            await self._unprotect(claims, await self._api.get(claims.whole(), meta["name"], self.namespace))
            return False
        known = meta.get("ownerReferences", [])
        uids = {owner["uid"] for owner in known}
        missing = [owner for owner in owners if owner["uid"] not in uids]
        if missing:
            body = {"resourceVersion": meta["resourceVersion"], "ownerReferences": [*known, *missing]}
            await self._api.patch(claims, meta["name"], MergePatch({"metadata": body}), self.namespace)
        return True

    async def _owner(self, holding: HeldLease) -> JsonObject:
        lease: Lease = await self._api.get(LEASES, holding.name, self.namespace)
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "name": holding.name, "uid": lease.metadata.uid}

    async def _given(
        self, claims: Resource[KubeResourceClaim], gpus: Sequence[tuple[str, WithheldGpu]]
    ) -> dict[AllocatedDevice, ObjectKey]:
        """Devices among these GPUs that ResourceClaims of other owners have, from a fresh list."""
        ours = {_name(node, gpu) for node, gpu in gpus}
        wanted = {device for node, gpu in gpus for device in _devices(node, gpu)}
        found: dict[AllocatedDevice, ObjectKey] = {}
        pages = self._api.pages(claims)
        async with closed_after(pages):
            async for page in pages:
                for claim in page.items:
                    meta, given = claim.metadata, claim.status.allocation
                    if given is None or (meta.namespace == self.namespace and meta.name in ours):
                        continue
                    key = ObjectKey(meta.namespace, meta.name)
                    found |= dict.fromkeys(wanted.intersection(allocated_devices(given)), key)
        return found

    async def _allocate(self, claims: Resource[KubeResourceClaim], node: str, gpu: WithheldGpu) -> None:
        status = {"status": {"allocation": _allocation(node, gpu)}}
        await self._api.patch(claims, _name(node, gpu), MergePatch(status), self.namespace, subresource="status")

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
        "finalizers": [RESERVATION_FINALIZER],
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
