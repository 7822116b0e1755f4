"""Status of a namespace's quotas: the amount held of each limit, and the first pod it refuses."""

from collections.abc import Mapping, Sequence

from ullage.decide.placement.devices.gpu_models import is_model
from ullage.decide.placement.quota import quota_verdict
from ullage.model.claim_status import QuotaStatus
from ullage.model.fact_event import ObjectKey
from ullage.model.quota import Quota, QuotaLimits, QuotaUsage


def quota_statuses(
    quotas: Sequence[Quota], used: QuotaUsage, waiting: Mapping[ObjectKey, QuotaUsage]
) -> list[QuotaStatus]:
    """Status of all quotas of a namespace. `waiting` are pods refused for quota, each with the least it would take."""
    said = {quota.key: _refusing(quota.limits, used, waiting) for quota in quotas}
    if waiting and not any(said.values()):
        # The refusal was for more than one pod's least: a gang, or the only model that fits. Any quota may be it.
        said = dict.fromkeys(said, f"pod {min(waiting)} is refused")
    return [
        QuotaStatus(
            quota=quota.key,
            uid=quota.uid,
            generation=quota.generation,
            used=used_of(quota.limits, used),
            exhausted=bool(said[quota.key]),
            message=said[quota.key],
        )
        for quota in quotas
    ]


def used_of(limits: QuotaLimits, used: QuotaUsage) -> QuotaUsage:
    """Usage of each limit, with models named as the limits name them."""
    models = tuple(
        (model, sum(count for product, count in used.by_model if is_model(product, model)))
        for model, _ in limits.by_model
    )
    return QuotaUsage(gpus=used.gpus, by_model=models, shares=used.shares)


def _refusing(limits: QuotaLimits, used: QuotaUsage, waiting: Mapping[ObjectKey, QuotaUsage]) -> str:
    """The first pod by name that these limits alone refuse, and the reason; empty if there is none."""
    for pod in sorted(waiting):
        verdict = quota_verdict(limits, used, waiting[pod])
        if not verdict:
            return f"pod {pod} is refused: {verdict.detail}"
    return ""
