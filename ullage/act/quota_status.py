"""Write the status of quotas: only fields that differ, and only on the quota of the uid it was decided on."""

from ullage import errors
from ullage.clock import Clock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import GPU_QUOTAS
from ullage.kube.objects.gpu import GpuQuota, GpuQuotaStatus
from ullage.kube.write.gpu import EXHAUSTED, ConditionSpec, patch_status, quota_status
from ullage.model.claim_status import QuotaStatus
from ullage.model.outcomes import RecordOutcome, StatusNotWritten, StatusWriteFailure, StatusWritten
from ullage.model.verdict import Reason

WITHIN_LIMITS = "WithinLimits"
"""Condition reason while no pod waits because of the quota."""

_ATTEMPTS = 6


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
