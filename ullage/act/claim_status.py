"""Write the status of claims: only fields that differ, and only on the claim of the uid it was decided on.

Conditions of other writers survive: each write has the resourceVersion that was read as precondition, and is made
again on a fresh read after a conflict.
"""

from ullage import errors
from ullage.clock import Clock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import GPU_CLAIMS
from ullage.kube.objects.gpu import GpuClaim, GpuClaimStatus
from ullage.kube.write.gpu import ClaimStatusFields, claim_status, patch_status
from ullage.model.claim_status import ClaimStatus
from ullage.model.fact_event import ObjectKey
from ullage.model.outcomes import RecordOutcome, StatusNotWritten, StatusWriteFailure, StatusWritten

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
