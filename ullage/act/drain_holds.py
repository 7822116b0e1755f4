"""Who is about to come to a node: a pod that holds its GPUs and is not bound yet. A taint does not stop it any more.

Our scheduler takes the Leases of GPUs before it binds, those of a whole gang before its first bind. Only looks.
"""

from collections.abc import Callable, Mapping, Sequence

from ullage.act.sweep import read_gpu_lease
from ullage.act.together import each
from ullage.errors import NotFound
from ullage.kube.api import KubeApi
from ullage.kube.resources import LEASES
from ullage.model.allocation import lease_name
from ullage.model.event import ObjectKey

_AT_ONCE = 8


class ComingPods:
    """Looks at the Leases of a node's GPUs, where anybody waits at all."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        waiting: Callable[[], Mapping[str, ObjectKey]],
        devices: Callable[[str], Sequence[int]],
    ) -> None:
        """`waiting`: pods that have no node, by their uids. `devices`: the GPUs of a node."""
        self._api = api
        self._namespace = namespace
        self._waiting = waiting
        self._devices = devices

    async def first(self, node: str) -> ObjectKey | None:
        """The first of them, by name. Raises ApiError."""
        if not self._waiting():
            return None
        names = [lease_name(node, device) for device in self._devices(node)]
        found = await each(names, self._holders, at_once=_AT_ONCE)
        waiting = self._waiting()
        return min((waiting[uid] for uids in found for uid in uids if uid in waiting), default=None)

    async def _holders(self, lease: str) -> list[str]:
        try:
            raw = await self._api.get(LEASES, lease, self._namespace)
        except NotFound:
            return []
        return [hold.uid for hold in read_gpu_lease(raw).holds]
