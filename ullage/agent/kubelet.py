"""What kubelet says of this node's GPUs, in our own terms: is there a device plugin, and whom did it give which GPU."""

from collections.abc import Mapping

import structlog

from ullage.agent.podresources import KubeletSilent, PodResources
from ullage.decide.inventory.stock import Stock
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod

log = structlog.get_logger()


class Kubelet:
    """Remembers the last answer: a kubelet that restarts does not take anybody's GPU away."""

    def __init__(self, resources: PodResources | None) -> None:
        """None: there is no kubelet to ask."""
        self._resources = resources
        self._given: dict[int, tuple[str, ...]] = {}
        self._complaint = ""

    async def has_plugin(self) -> bool | None:
        """Whether a device plugin manages GPUs here; None where nobody can say."""
        if self._resources is None:
            return None
        try:
            return bool(await self._resources.managed())
        except KubeletSilent as silent:
            self._complain(str(silent))
            return None

    async def given(self, stock: Stock, pods: Mapping[ObjectKey, Pod]) -> dict[int, tuple[str, ...]]:
        """By GPU id: uids of the pods the plugin gave it to. As last heard, where kubelet does not answer now."""
        if self._resources is None:
            return {}
        try:
            answer = await self._resources.given()
        except KubeletSilent as silent:
            self._complain(str(silent))
            return self._given
        self._complaint = ""
        ids = {device.uuid: device.id for device in stock.devices}
        ids |= {part.uuid: device.id for device in stock.devices for part in device.mig}
        found: dict[int, dict[str, None]] = {}
        for one in answer:
            pod = pods.get(one.pod)
            for name in one.ids:
                # A plugin that shares GPUs by time numbers the copies: GPU-uuid::3.
                gpu = ids.get(name.partition("::")[0])
                if pod is not None and gpu is not None:
                    found.setdefault(gpu, {})[pod.uid] = None
        self._given = {gpu: tuple(sorted(uids)) for gpu, uids in sorted(found.items())}
        return self._given

    def _complain(self, text: str) -> None:
        """Once, until it is well again or something else is wrong."""
        if text != self._complaint:
            log.warning("kubelet silent", why=text)
        self._complaint = text
