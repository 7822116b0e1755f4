"""Release GPU Leases: read pod and node afresh, fence the pod, remove the hold.

Each removal, also of a single share, has the Lease's resourceVersion as precondition: a Lease written since it was read
is kept. The LeaseGarbageCollector decides which holds to release.
"""

from collections.abc import Collection, Mapping

from ullage import errors
from ullage.act.fence import fence, look
from ullage.kube.client.api import Deletion, KubeApi, MergePatch
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import LEASES
from ullage.kube.client.watch_decoder import closed_after
from ullage.kube.objects.meta import PartialObject
from ullage.kube.read.leases import read_gpu_lease, read_holder, written_parts
from ullage.model.fact_event import ObjectKey
from ullage.model.lease import GpuLease, HolderPod, LeaseHold

_POD_NAMES = Resource("", "v1", "pods", "Pod", True, PartialObject)
_NODE_NAMES = Resource("", "v1", "nodes", "Node", False, PartialObject)


class LeaseReleaser:
    """Reads afresh and releases. Every method raises ApiError where the API could not be reached."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def pod(self, key: ObjectKey) -> HolderPod | None:
        """Pod of this name now, None if there is none."""
        found = await look(self._api, key)
        return None if found is None else read_holder(found)

    async def fence(self, pod: HolderPod) -> HolderPod | None:
        """Fence the pod: binds decided on an earlier resourceVersion fail. Returns the pod as it is afterwards."""
        found = await fence(self._api, pod.key, pod.uid, f"sweep@{pod.resource_version}")
        return None if found is None else read_holder(found)

    async def node_exists(self, name: str) -> bool:
        """True if there is a node of this name."""
        try:
            await self._api.get(_NODE_NAMES, name)
        except errors.NotFound:
            return False
        return True

    async def find(self, uids: Collection[str]) -> Mapping[str, ObjectKey]:
        """Keys of pods by uid, from a consistent list of all pods. A uid that is missing is gone."""
        found: dict[str, ObjectKey] = {}
        pages = self._api.pages(_POD_NAMES)
        async with closed_after(pages):
            async for page in pages:
                for pod in page.items:
                    if pod.metadata.uid in uids:
                        found[pod.metadata.uid] = ObjectKey(pod.metadata.namespace, pod.metadata.name)
        return found

    async def lease(self, name: str) -> GpuLease | None:
        """Lease as it is now, None if there is none."""
        try:
            return read_gpu_lease(await self._api.get(LEASES, name, self._namespace))
        except errors.NotFound:
            return None

    async def let_go(self, lease: GpuLease, holds: Collection[LeaseHold]) -> bool:
        """Remove these holds from a Lease; with no hold left, delete it. False if it has changed since it was read."""
        left = tuple(hold for hold in lease.holds if hold not in holds)
        try:
            if left:
                meta = {"resourceVersion": lease.resource_version, "annotations": written_parts(left)}
                await self._api.patch(LEASES, lease.name, MergePatch({"metadata": meta}), self._namespace)
            else:
                how = Deletion(resource_version=lease.resource_version)
                await self._api.delete(LEASES, lease.name, self._namespace, how=how)
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        return True
