"""Writes how a claim stands into its status: only what differs, and only on the very claim that was judged.

Conditions of others survive: each write is conditional on the claim as it was read, and is made again on what is there
if somebody was faster.
"""

from ullage import errors
from ullage.clock import Clock
from ullage.kube.api import KubeApi
from ullage.kube.gpu_write import ClaimOutcome, claim_status, patch_status
from ullage.kube.objects.gpu import GpuClaim, GpuClaimStatus
from ullage.kube.resources import GPU_CLAIMS
from ullage.model.event import ObjectKey
from ullage.model.standing import NotRecorded, Recorded, RecordOutcome, Standing, Unrecorded

_ATTEMPTS = 6


class ClaimRecorder:
    """Hands for `Standing`. Safe to run for many claims at once, and twice for the same claim."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def record(self, standing: Standing, known: GpuClaim | None = None) -> RecordOutcome:
        """Every way this can end is an outcome. Whoever has the claim at hand saves a read by passing it in."""
        refusal: errors.ApiError = errors.Conflict("others were always faster")
        try:
            for _ in range(_ATTEMPTS):
                claim = await self._read(standing.claim) if known is None else known
                known = None
                if claim.metadata.uid != standing.uid:
                    return Unrecorded(standing, NotRecorded.CLAIM_GONE, "another claim has its name now")
                try:
                    return Recorded(standing, await self._write(claim, standing))
                except errors.Conflict as error:
                    refusal = error
        except errors.NotFound as error:
            return Unrecorded(standing, NotRecorded.CLAIM_GONE, str(error))
        except errors.ApiError as error:
            refusal = error
        return Unrecorded(standing, NotRecorded.API_FAILED, str(refusal))

    async def _read(self, where: ObjectKey) -> GpuClaim:
        return await self._api.get(GPU_CLAIMS, where.name, where.namespace)

    async def _write(self, claim: GpuClaim, standing: Standing) -> bool:
        """Whether there was anything to write."""
        patch = patch_status(claim.metadata, claim.status, self._status(claim.status, standing))
        if patch is None:
            return False
        where = standing.claim
        await self._api.patch(GPU_CLAIMS, where.name, patch, where.namespace, subresource="status")
        return True

    def _status(self, before: GpuClaimStatus, standing: Standing) -> GpuClaimStatus:
        outcome = ClaimOutcome(
            phase=standing.phase,
            node=standing.node,
            gpu_ids=standing.gpu_ids,
            reason=standing.word,
            message=standing.message,
        )
        return claim_status(before, outcome, generation=standing.generation, now=self._clock.now())
