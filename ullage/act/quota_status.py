"""Writes how a quota stands into its status: only what differs, and only on the very quota that was judged."""

from ullage import errors
from ullage.clock import Clock
from ullage.kube.api import KubeApi
from ullage.kube.gpu_write import EXHAUSTED, Aspect, patch_status, quota_status
from ullage.kube.objects.gpu import GpuQuota, GpuQuotaStatus
from ullage.kube.resources import GPU_QUOTAS
from ullage.model.standing import NotRecorded, QuotaStanding, Recorded, RecordOutcome, Unrecorded
from ullage.model.verdict import Reason

WITHIN_LIMITS = "WithinLimits"
"""Nobody waits because of it."""

_ATTEMPTS = 6


class QuotaRecorder:
    """Hands for `QuotaStanding`. Safe to run for many quotas at once, and twice for the same quota."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def record(self, standing: QuotaStanding) -> RecordOutcome:
        """Every way this can end is an outcome."""
        where, refusal = standing.quota, errors.Conflict("others were always faster")
        try:
            for _ in range(_ATTEMPTS):
                quota = await self._api.get(GPU_QUOTAS, where.name, where.namespace)
                if quota.metadata.uid != standing.uid:
                    return Unrecorded(standing, NotRecorded.QUOTA_GONE, "another quota has its name now")
                try:
                    return Recorded(standing, await self._write(quota, standing))
                except errors.Conflict as error:
                    refusal = error
        except errors.NotFound as error:
            return Unrecorded(standing, NotRecorded.QUOTA_GONE, str(error))
        except errors.ApiError as error:
            return Unrecorded(standing, NotRecorded.API_FAILED, str(error))
        return Unrecorded(standing, NotRecorded.API_FAILED, str(refusal))

    async def _write(self, quota: GpuQuota, standing: QuotaStanding) -> bool:
        """Whether there was anything to write."""
        patch = patch_status(quota.metadata, quota.status, self._status(quota.status, standing))
        if patch is None:
            return False
        where = standing.quota
        await self._api.patch(GPU_QUOTAS, where.name, patch, where.namespace, subresource="status")
        return True

    def _status(self, before: GpuQuotaStatus, standing: QuotaStanding) -> GpuQuotaStatus:
        reason = Reason.QUOTA_EXCEEDED if standing.exhausted else WITHIN_LIMITS
        exhausted = Aspect(EXHAUSTED, standing.exhausted, str(reason), standing.message)
        return quota_status(before, standing.used, exhausted, generation=standing.generation, now=self._clock.now())
