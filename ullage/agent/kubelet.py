"""Device plugin state, from kubelet: does a plugin manage GPUs of this node, and the pods it gave each GPU to."""

from collections.abc import Mapping

import structlog

from ullage.agent.podresources import KubeletUnavailable, PodResources
from ullage.decide.inventory.known_gpus import KnownGpus
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod

log = structlog.get_logger()


class Kubelet:
    """Keeps kubelet's last answer: a kubelet that restarts takes no pod's GPU away."""

    def __init__(self, resources: PodResources | None) -> None:
        """`resources` is None where there is no kubelet to ask."""
        self._resources = resources
        self._given: dict[int, tuple[str, ...]] = {}
        self._complaint = ""

    async def has_plugin(self) -> bool | None:
        """True if a device plugin manages GPUs here; None where kubelet cannot be asked."""
        if self._resources is None:
            return None
        try:
            return bool(await self._resources.managed())
        except KubeletUnavailable as silent:
            self._complain(str(silent))
            return None

    def served(self) -> tuple[str, ...]:
        """Uids of pods that have GPUs by a plugin, as far as kubelet was ever asked which."""
        return tuple(dict.fromkeys(uid for uids in self._given.values() for uid in uids))

    async def given(self, known_gpus: KnownGpus, pods: Mapping[ObjectKey, Pod]) -> dict[int, tuple[str, ...]]:
        """Uids of the pods the plugin gave a GPU to, by GPU id. The last answer where kubelet does not answer now."""
        if self._resources is None:
            return {}
        try:
            answer = await self._resources.given()
        except KubeletUnavailable as silent:
            self._complain(str(silent))
            return self._given
        self._complaint = ""
        ids = {device.uuid: device.id for device in known_gpus.devices}
        ids |= {part.uuid: device.id for device in known_gpus.devices for part in device.mig}
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
        """Log the problem once, until it is over or another one takes its place."""
        if text != self._complaint:
            log.warning("kubelet silent", why=text)
        self._complaint = text
