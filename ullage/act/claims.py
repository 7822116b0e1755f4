"""Writes for GpuClaims and GpuQuotas: claims from templates, and the status of both.

A status write changes only fields that differ, on the object of the uid it was decided on. Conditions of other writers
survive: each write has the resourceVersion that was read as precondition, and is made again on a fresh read after a
conflict. The name of a claim from a template is derived from the pod, so two creates make one claim; a claim for a pod
that is gone by then is removed by the garbage collector.
"""

from ullage import errors
from ullage.clock import Clock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS, GPU_QUOTAS
from ullage.kube.objects.gpu import GpuClaim, GpuClaimStatus, GpuQuota, GpuQuotaStatus
from ullage.kube.write.gpu import (
    EXHAUSTED,
    ClaimStatusFields,
    ConditionSpec,
    claim_copy,
    claim_status,
    patch_status,
    quota_status,
)
from ullage.model.claim import copy_key
from ullage.model.claim_status import ClaimStatus, QuotaStatus
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import CreateClaimFromTemplate
from ullage.model.outcomes import (
    ClaimCreated,
    ClaimCreateFailure,
    ClaimNotCreated,
    CopyOutcome,
    RecordOutcome,
    StatusNotWritten,
    StatusWriteFailure,
    StatusWritten,
)
from ullage.model.verdict import Reason

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


_ATTEMPTS = 6


class ClaimStatusWriter:
    """Actuator of `ClaimStatus`. Safe to run for many claims at once, and twice for the same claim."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def record(self, desired: ClaimStatus, known: GpuClaim | None = None) -> RecordOutcome:
        """Write the status. Every end is an outcome. A caller that passes the claim as `known` saves a read."""
        refusal: errors.ApiError = errors.Conflict("others were always faster")
        try:
            for _ in range(_ATTEMPTS):
                claim = await self._read(desired.claim) if known is None else known
                known = None
                if claim.metadata.uid != desired.uid:
                    return StatusNotWritten(desired, StatusWriteFailure.CLAIM_GONE, "another claim has its name now")
                try:
                    return StatusWritten(desired, await self._write(claim, desired))
                except errors.Conflict as error:
                    refusal = error
        except errors.NotFound as error:
            return StatusNotWritten(desired, StatusWriteFailure.CLAIM_GONE, str(error))
        except errors.ApiError as error:
            refusal = error
        return StatusNotWritten(desired, StatusWriteFailure.API_FAILED, str(refusal))

    async def _read(self, where: ObjectKey) -> GpuClaim:
        return await self._api.get(GPU_CLAIMS, where.name, where.namespace)

    async def _write(self, claim: GpuClaim, desired: ClaimStatus) -> bool:
        """True if there was anything to write."""
        patch = patch_status(claim.metadata, claim.status, self._status(claim.status, desired))
        if patch is None:
            return False
        where = desired.claim
        await self._api.patch(GPU_CLAIMS, where.name, patch, where.namespace, subresource="status")
        return True

    def _status(self, before: GpuClaimStatus, desired: ClaimStatus) -> GpuClaimStatus:
        outcome = ClaimStatusFields(
            phase=desired.phase,
            node=desired.node,
            gpu_ids=desired.gpu_ids,
            reason=desired.word,
            message=desired.message,
        )
        return claim_status(before, outcome, generation=desired.generation, now=self._clock.now())


WITHIN_LIMITS = "WithinLimits"
"""Condition reason while no pod waits because of the quota."""


class QuotaStatusWriter:
    """Actuator of `QuotaStatus`. Safe to run for many quotas at once, and twice for the same quota."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def record(self, desired: QuotaStatus) -> RecordOutcome:
        """Write the status. Every end is an outcome."""
        where, refusal = desired.quota, errors.Conflict("others were always faster")
        try:
            for _ in range(_ATTEMPTS):
                quota = await self._api.get(GPU_QUOTAS, where.name, where.namespace)
                if quota.metadata.uid != desired.uid:
                    return StatusNotWritten(desired, StatusWriteFailure.QUOTA_GONE, "another quota has its name now")
                try:
                    return StatusWritten(desired, await self._write(quota, desired))
                except errors.Conflict as error:
                    refusal = error
        except errors.NotFound as error:
            return StatusNotWritten(desired, StatusWriteFailure.QUOTA_GONE, str(error))
        except errors.ApiError as error:
            return StatusNotWritten(desired, StatusWriteFailure.API_FAILED, str(error))
        return StatusNotWritten(desired, StatusWriteFailure.API_FAILED, str(refusal))

    async def _write(self, quota: GpuQuota, desired: QuotaStatus) -> bool:
        """True if there was anything to write."""
        patch = patch_status(quota.metadata, quota.status, self._status(quota.status, desired))
        if patch is None:
            return False
        where = desired.quota
        await self._api.patch(GPU_QUOTAS, where.name, patch, where.namespace, subresource="status")
        return True

    def _status(self, before: GpuQuotaStatus, desired: QuotaStatus) -> GpuQuotaStatus:
        reason = Reason.QUOTA_EXCEEDED if desired.exhausted else WITHIN_LIMITS
        exhausted = ConditionSpec(EXHAUSTED, desired.exhausted, str(reason), desired.message)
        return quota_status(before, desired.used, exhausted, generation=desired.generation, now=self._clock.now())
