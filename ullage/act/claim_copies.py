"""Makes the claims of pods that name a template. The name says whose it is, so that making it twice makes one.

The spec is copied as it is on the server, fields we do not know included. A copy for a pod that is gone by then is
collected as any orphan is.
"""

from ullage import errors
from ullage.kube.api import KubeApi
from ullage.kube.gpu_write import claim_copy
from ullage.kube.resource import JsonObject
from ullage.kube.resources import GPU_CLAIMS
from ullage.model.claim import copy_key
from ullage.model.copying import Copied, CopyClaim, CopyOutcome, NotCopied, NotCopying

_TEMPLATES_REMEMBERED = 64


class ClaimCopier:
    """Hands for `CopyClaim`. Safe to run for many pods at once, and twice for the same pod."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._specs: dict[tuple[str, int], JsonObject] = {}
        """By uid and generation: the thousand pods of a Job need one read."""

    async def perform(self, action: CopyClaim) -> CopyOutcome:
        """Every way this can end is an outcome."""
        try:
            spec = await self._spec(action)
        except errors.NotFound as error:
            return NotCopied(action, NotCopying.TEMPLATE_GONE, str(error))
        except errors.ApiError as error:
            return NotCopied(action, NotCopying.API_FAILED, str(error))
        body = claim_copy(action.template, spec, action.pod, action.uid)
        try:
            await self._api.create(GPU_CLAIMS, body, action.pod.namespace)
        except errors.AlreadyExists:
            return await self._found(action)
        except errors.ApiError as error:
            return NotCopied(action, NotCopying.API_FAILED, str(error))
        return Copied(action, written=True)

    async def _spec(self, action: CopyClaim) -> JsonObject:
        known = self._specs.get((action.template_uid, action.generation))
        if known is not None:
            return known
        found = await self._api.get(GPU_CLAIMS.whole(), action.template, action.pod.namespace)
        meta, spec = found["metadata"], dict(found["spec"])
        if len(self._specs) >= _TEMPLATES_REMEMBERED:
            del self._specs[next(iter(self._specs))]
        self._specs[meta["uid"], meta.get("generation", 0)] = spec
        return spec

    async def _found(self, action: CopyClaim) -> CopyOutcome:
        """Something has the copy's name already: it is the copy if the pod controls it."""
        key = copy_key(action.pod, action.uid)
        try:
            claim = await self._api.get(GPU_CLAIMS, key.name, key.namespace)
        except errors.ApiError as error:
            return NotCopied(action, NotCopying.API_FAILED, str(error))
        owners = {owner.uid for owner in claim.metadata.owner_references if owner.controller}
        if action.uid in owners:
            return Copied(action, written=False)
        return NotCopied(action, NotCopying.NAME_TAKEN, f"GpuClaim {key} is somebody else's")
