"""Hands of the lease sweeper: fresh looks at pods and nodes, the fence, and letting go of what others held.

Nothing is let go that was written since it was looked at: each removal carries the Lease's resourceVersion, also of
single shares. What is to be let go is decided elsewhere.
"""

from collections.abc import Collection, Mapping

import msgspec

from ullage import errors
from ullage.act.fence import fence, look
from ullage.act.leases import DEVICE, MANAGED, NODE, POD, SHARED_HOLDER, SHARES, read_shares
from ullage.kube.api import Deletion, KubeApi, MergePatch, Selection
from ullage.kube.moment import read_time
from ullage.kube.objects.meta import PartialObject
from ullage.kube.objects.pod import Pod
from ullage.kube.objects.policy import Lease
from ullage.kube.resource import Resource
from ullage.kube.resources import LEASES
from ullage.kube.watching import closed_after
from ullage.model.allocation import ALLOCATED, parse_allocation
from ullage.model.event import ObjectKey
from ullage.model.lease import GpuLease, Hold, HolderPod
from ullage.model.pod import Phase

OUR_LEASES = Selection(labels=f"{MANAGED}=true")
"""The Leases of GPUs, among whatever else is in their namespace."""

_POD_NAMES = Resource("", "v1", "pods", "Pod", True, PartialObject)
_NODE_NAMES = Resource("", "v1", "nodes", "Node", False, PartialObject)


def read_gpu_lease(raw: Lease) -> GpuLease:
    """A Lease's facts. Raises Unreadable."""
    meta, spec = raw.metadata, raw.spec
    holder, shared = spec.holder_identity or "", spec.holder_identity == SHARED_HOLDER
    shares = tuple(Hold(uid, milli) for uid, milli in sorted(read_shares(raw).items()))
    try:
        return GpuLease(
            name=meta.name,
            node=meta.annotations[NODE],
            device=int(meta.annotations[DEVICE]),
            holds=shares if shared else (Hold(holder),),
            shared=shared,
            renewed=read_time(spec.renew_time),
            resource_version=meta.resource_version,
            pod=None if shared else _key(meta.annotations.get(POD, "")),
        )
    except (KeyError, ValueError) as error:
        raise errors.Unreadable(f"lease {meta.name}: {error}") from error


def read_holder(raw: Pod) -> HolderPod:
    """What of a pod matters to its holds. Never fails: an allocation that makes no sense is an unreadable one."""
    meta, node = raw.metadata, raw.spec.node_name
    return HolderPod(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        node=node,
        over=raw.status.phase in (Phase.SUCCEEDED, Phase.FAILED),
        devices=_devices(meta.annotations.get(ALLOCATED, ""), node),
    )


def _devices(written: str, node: str) -> tuple[int, ...] | None:
    if not written or not node:
        return ()
    try:
        allocation = parse_allocation(written)
    except ValueError:
        return None
    return allocation.devices if allocation.node == node else None


def _key(text: str) -> ObjectKey | None:
    namespace, slash, name = text.partition("/")
    return ObjectKey(namespace, name) if slash and namespace and name else None


class Broom:
    """Looks afresh and lets go. Every method raises ApiError where the API could not be asked."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def pod(self, key: ObjectKey) -> HolderPod | None:
        """Whatever has this name now."""
        found = await look(self._api, key)
        return None if found is None else read_holder(found)

    async def fence(self, pod: HolderPod) -> HolderPod | None:
        """From here on a bind decided on the pod as it was before must fail. Returns the pod as it is then."""
        found = await fence(self._api, pod.key, pod.uid, f"sweep@{pod.resource_version}")
        return None if found is None else read_holder(found)

    async def node_exists(self, name: str) -> bool:
        """Whether there is a node of this name."""
        try:
            await self._api.get(_NODE_NAMES, name)
        except errors.NotFound:
            return False
        return True

    async def find(self, uids: Collection[str]) -> Mapping[str, ObjectKey]:
        """Where the pods of these uids are, by a consistent list of all pods. What it does not find is gone."""
        found: dict[str, ObjectKey] = {}
        pages = self._api.pages(_POD_NAMES)
        async with closed_after(pages):
            async for page in pages:
                for pod in page.items:
                    if pod.metadata.uid in uids:
                        found[pod.metadata.uid] = ObjectKey(pod.metadata.namespace, pod.metadata.name)
        return found

    async def lease(self, name: str) -> GpuLease | None:
        """The Lease as it is now."""
        try:
            return read_gpu_lease(await self._api.get(LEASES, name, self._namespace))
        except errors.NotFound:
            return None

    async def let_go(self, lease: GpuLease, uids: Collection[str]) -> bool:
        """Take these holds out of a Lease as it was looked at; the last one out deletes it. False if it has changed."""
        left = tuple(hold for hold in lease.holds if hold.uid not in uids)
        try:
            if left:
                await self._keep_shares(lease, left)
            else:
                how = Deletion(resource_version=lease.resource_version)
                await self._api.delete(LEASES, lease.name, self._namespace, how=how)
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        return True

    async def _keep_shares(self, lease: GpuLease, left: Collection[Hold]) -> None:
        shares = msgspec.json.encode({hold.uid: hold.milli for hold in left}).decode()
        meta = {"resourceVersion": lease.resource_version, "annotations": {SHARES: shares}}
        await self._api.patch(LEASES, lease.name, MergePatch({"metadata": meta}), self._namespace)
