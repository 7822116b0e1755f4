"""Incoming pods of a node: pods that hold its GPUs and are not bound yet. A taint does not stop their bind any more.

The scheduler takes the Leases of GPUs before it binds, those of a whole gang before its first bind. Reads only, and
always from the API server: an incoming pod may be one that no watch has delivered yet.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from ullage.act.concurrency import each
from ullage.act.lease_release import LeaseReleaser
from ullage.kube.client.api import KubeApi
from ullage.model.allocation import lease_name
from ullage.model.fact_event import ObjectKey

_AT_ONCE = 8


class IncomingPods:
    """Reads the Leases of a node's GPUs, and holders that are not on the node."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        known: Callable[[Collection[str]], Mapping[str, ObjectKey]],
        devices: Callable[[str], Sequence[int]],
    ) -> None:
        """`known`: names of observed pods by uid. `devices`: the GPUs of a node."""
        self._known = known
        self._devices = devices
        self._broom = LeaseReleaser(api, namespace)

    async def first(self, node: str, here: Collection[str]) -> ObjectKey | None:
        """First incoming pod by name. `here`: uids of the pods just read from the node. Raises ApiError."""
        names = [lease_name(node, device) for device in self._devices(node)]
        leases = [lease for lease in await each(names, self._broom.lease, at_once=_AT_ONCE) if lease is not None]
        holders: dict[str, ObjectKey | None] = {}
        for lease in leases:
            holders.update({hold.uid: lease.pod for hold in lease.holds if hold.uid not in here})
        named = {uid: key for uid, key in sorted(holders.items()) if key is not None}
        nameless = holders.keys() - named.keys()
        if nameless:
            named |= await self._find(nameless)
        coming = await each(sorted(named.items()), lambda one: self._comes(*one, node), at_once=_AT_ONCE)
        return min((key for key in coming if key is not None), default=None)

    async def _find(self, uids: Collection[str]) -> dict[str, ObjectKey]:
        """Names of pods by uid: shared Leases hold only uids. All pods are listed only if some were never observed."""
        found = dict(self._known(uids))
        unheard = set(uids) - found.keys()
        return {**found, **await self._broom.find(unheard)} if unheard else found

    async def _comes(self, uid: str, key: ObjectKey, node: str) -> ObjectKey | None:
        """Key of the pod if it is pending, or was bound to this node since its pods were read; else None."""
        pod = await self._broom.pod(key)
        if pod is None or pod.uid != uid or pod.over:
            return None
        return key if pod.node in ("", node) else None
