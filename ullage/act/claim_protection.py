"""Add the finalizer to claims in use, and remove it again. Other finalizers stay."""

from ullage import errors
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import GPU_CLAIMS
from ullage.model.claim import PROTECTION, Claim


class ClaimProtection:
    """Writes the finalizer. Each write has uid and resourceVersion of the claim it was decided on as preconditions."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def put(self, claim: Claim, *, protected: bool) -> bool:
        """Add or remove the finalizer. True if done, or the claim is gone; False if it has changed. Raises ApiError."""
        others = [one for one in claim.finalizers if one != PROTECTION]
        body = {
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
            "finalizers": [*others, PROTECTION] if protected else others,
        }
        try:
            await self._api.patch(GPU_CLAIMS, claim.key.name, MergePatch({"metadata": body}), claim.key.namespace)
        except errors.Conflict:
            return False
        except errors.NotFound:
            return True
        return True
