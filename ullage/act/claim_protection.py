"""Add the finalizer to claims in use, and remove it again. Other finalizers stay.

No pod is bound by a claim before the finalizer is there (`ensure`): then the claim outlives its deletion as long as the
pod runs.
"""

import asyncio

from ullage import errors
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS
from ullage.model.claim import PROTECTION, Claim, ClaimInUse
from ullage.model.fact_event import ObjectKey

_ATTEMPTS = 8


class ClaimProtection:
    """Writes the finalizer. Each write has uid and resourceVersion of the claim it was decided on as preconditions.

    One object serves the ClaimController and the binds of a scheduler: a bind waits for a write under way, and does not
    trust a fact that such a write has overtaken.
    """

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._under_way: dict[ObjectKey, asyncio.Event] = {}
        self._written: dict[ObjectKey, tuple[str, bool]] = {}
        """Last write of ours that was not observed yet: uid of the claim, and whether it is protected."""

    def observe(self, key: ObjectKey, claim: Claim | None) -> None:
        """Take in the claim as observed, None if it is gone."""
        written = self._written.get(key)
        if written is not None and (claim is None or (claim.uid, claim.protected) == written):
            del self._written[key]

    async def put(self, claim: Claim, *, protected: bool) -> bool:
        """Add or remove the finalizer. True if done, or the claim is gone; False if it has changed. Raises ApiError."""
        done = self._under_way[claim.key] = asyncio.Event()
        self._written[claim.key] = claim.uid, False  # until the outcome is known
        try:
            await self._patch(claim.key, claim.uid, claim.resource_version, claim.finalizers, protected=protected)
            self._written[claim.key] = claim.uid, protected
        except errors.Conflict:
            return False
        except errors.NotFound:
            self._written.pop(claim.key, None)
        finally:
            del self._under_way[claim.key]
            done.set()
        return True

    async def ensure(self, claim: ClaimInUse) -> None:
        """Return once the claim has the finalizer. Raises NotFound if it is gone or to go, ApiError otherwise."""
        if (under_way := self._under_way.get(claim.key)) is not None:
            await under_way.wait()
        uid, protected = self._written.get(claim.key, (claim.uid, claim.protected))
        if protected and uid == claim.uid:
            return
        because: errors.ApiError = errors.Conflict(f"gpuclaim {claim.key}: others were always faster")
        for _ in range(_ATTEMPTS):
            there = await self._api.get(GPU_CLAIMS.whole(), claim.key.name, claim.key.namespace)
            meta: JsonObject = there["metadata"]
            if meta["uid"] != claim.uid or meta.get("deletionTimestamp"):
                raise errors.NotFound(f"GpuClaim {claim.key} was deleted")
            finalizers = tuple(meta.get("finalizers", ()))
            if PROTECTION in finalizers:
                return
            try:
                await self._patch(claim.key, claim.uid, meta["resourceVersion"], finalizers, protected=True)
            except errors.Conflict as error:
                because = error
            else:
                self._written[claim.key] = claim.uid, True
                return
        raise because

    async def _patch(
        self, key: ObjectKey, uid: str, version: str, finalizers: tuple[str, ...], *, protected: bool
    ) -> None:
        others = [one for one in finalizers if one != PROTECTION]
        body = {
            "uid": uid,
            "resourceVersion": version,
            "finalizers": [*others, PROTECTION] if protected else others,
        }
        await self._api.patch(GPU_CLAIMS, key.name, MergePatch({"metadata": body}), key.namespace)
