"""Writing how a quota stands, in both worlds: only changes, and only on that very quota."""

import pytest

from ullage.act.claims import QuotaStatusWriter
from ullage.clock import WallClock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import GPU_QUOTAS
from ullage.kube.crds.install import install
from ullage.kube.objects.gpu import GpuQuota
from ullage.model.claim_status import QuotaStatus
from ullage.model.fact_event import ObjectKey
from ullage.model.outcomes import StatusNotWritten, StatusWriteFailure, StatusWritten
from ullage.model.quota import QuotaUsage


@pytest.fixture
async def quota(api: KubeApi, ns: str) -> GpuQuota:
    await install(api)
    return await api.create(GPU_QUOTAS, {"metadata": {"name": "q"}, "spec": {"gpus": 8}}, ns)


def standing(quota: GpuQuota, gpus: int = 3, *, refused: str = "") -> QuotaStatus:
    meta = quota.metadata
    return QuotaStatus(
        quota=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        generation=meta.generation,
        used=QuotaUsage(gpus=gpus, by_model=(("H100", gpus),)),
        exhausted=bool(refused),
        message=refused,
    )


async def test_a_quota_says_what_is_used_and_who_waits(api: KubeApi, ns: str, quota: GpuQuota) -> None:
    recorder, said = QuotaStatusWriter(api, WallClock()), standing(quota, refused="pod n/p is refused")
    assert await recorder.record(said) == StatusWritten(said, written=True)
    status = (await api.get(GPU_QUOTAS, "q", ns)).status
    assert (status.used.gpus, status.used.by_model, status.observed_generation) == (3, {"H100": 3}, 1)
    (condition,) = status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Exhausted", "True", "QuotaExceeded")
    assert condition.message == "pod n/p is refused"
    assert await recorder.record(said) == StatusWritten(said, written=False)
    assert await recorder.record(standing(quota)) == StatusWritten(standing(quota), written=True)
    (condition,) = (await api.get(GPU_QUOTAS, "q", ns)).status.conditions
    assert (condition.status, condition.reason) == ("False", "WithinLimits")


async def test_another_quota_is_left_alone(api: KubeApi, ns: str, quota: GpuQuota) -> None:
    await api.delete(GPU_QUOTAS, "q", ns)
    gone = await QuotaStatusWriter(api, WallClock()).record(standing(quota))
    await api.create(GPU_QUOTAS, {"metadata": {"name": "q"}, "spec": {"gpus": 1}}, ns)
    replaced = await QuotaStatusWriter(api, WallClock()).record(standing(quota))
    assert isinstance(gone, StatusNotWritten)
    assert isinstance(replaced, StatusNotWritten)
    assert {gone.setback, replaced.setback} == {StatusWriteFailure.QUOTA_GONE}
    assert (await api.get(GPU_QUOTAS, "q", ns)).status.used.gpus is None
