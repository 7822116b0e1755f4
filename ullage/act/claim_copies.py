"""Create claims of pods that name a template. The claim's name is derived from the pod, so two creates make one claim.

The spec is copied as it is on the server, unknown fields included. A copy for a pod that is gone by then is removed by
the garbage collector.
"""

from ullage import errors
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS
from ullage.kube.write.gpu import claim_copy
from ullage.model.claim import copy_key
from ullage.model.intents import CreateClaimFromTemplate
from ullage.model.outcomes import ClaimCreated, ClaimCreateFailure, ClaimNotCreated, CopyOutcome

_TEMPLATES_REMEMBERED = 64


class ClaimCreator:
    """Actuator of `CreateClaimFromTemplate`. Safe to run for many pods at once, and twice for the same pod."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._specs: dict[tuple[str, int], JsonObject] = {}
        """Template specs by uid and generation: the thousand pods of a Job need one read."""

    async def perform(self, action: CreateClaimFromTemplate) -> CopyOutcome:
        """Create the claim. Every end is an outcome."""
        try:
            spec = await self._spec(action)
        except errors.NotFound as error:
            return ClaimNotCreated(action, ClaimCreateFailure.TEMPLATE_GONE, str(error))
        except errors.ApiError as error:
            return ClaimNotCreated(action, ClaimCreateFailure.API_FAILED, str(error))
        body = claim_copy(action.template, spec, action.pod, action.uid)
        try:
            await self._api.create(GPU_CLAIMS, body, action.pod.namespace)
        except errors.AlreadyExists:
            return await self._found(action)
        except errors.ApiError as error:
            return ClaimNotCreated(action, ClaimCreateFailure.API_FAILED, str(error))
        return ClaimCreated(action, written=True)

    async def _spec(self, action: CreateClaimFromTemplate) -> JsonObject:
        known = self._specs.get((action.template_uid, action.generation))
        if known is not None:
            return known
        found = await self._api.get(GPU_CLAIMS.whole(), action.template, action.pod.namespace)
        meta, spec = found["metadata"], dict(found["spec"])
        if len(self._specs) >= _TEMPLATES_REMEMBERED:
            del self._specs[next(iter(self._specs))]
        self._specs[meta["uid"], meta.get("generation", 0)] = spec
        return spec

    async def _found(self, action: CreateClaimFromTemplate) -> CopyOutcome:
        """Outcome where a claim has the copy's name already: it is the copy if the pod controls it."""
        key = copy_key(action.pod, action.uid)
        try:
            claim = await self._api.get(GPU_CLAIMS, key.name, key.namespace)
        except errors.ApiError as error:
            return ClaimNotCreated(action, ClaimCreateFailure.API_FAILED, str(error))
        owners = {owner.uid for owner in claim.metadata.owner_references if owner.controller}
        if action.uid in owners:
            return ClaimCreated(action, written=False)
        return ClaimNotCreated(action, ClaimCreateFailure.NAME_TAKEN, f"GpuClaim {key} is somebody else's")
