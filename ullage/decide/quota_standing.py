"""How the quotas of a namespace stand: what is held of each limit, and whether somebody waits because of it."""

from collections.abc import Mapping, Sequence

from ullage.decide.devices.products import is_model
from ullage.decide.quota import quota_verdict
from ullage.model.event import ObjectKey
from ullage.model.quota import Limits, Quota, Usage
from ullage.model.standing import QuotaStanding


def quota_standings(quotas: Sequence[Quota], used: Usage, waiting: Mapping[ObjectKey, Usage]) -> list[QuotaStanding]:
    """Of all quotas of one namespace. `waiting` are pods refused for quota, with the least each of them would take."""
    said = {quota.key: _refusing(quota.limits, used, waiting) for quota in quotas}
    if waiting and not any(said.values()):
        # It takes more than the least of one pod: of a gang, or of the only model that fits. Any of them may be it.
        said = dict.fromkeys(said, f"pod {min(waiting)} is refused")
    return [
        QuotaStanding(
            quota=quota.key,
            uid=quota.uid,
            generation=quota.generation,
            used=used_of(quota.limits, used),
            exhausted=bool(said[quota.key]),
            message=said[quota.key],
        )
        for quota in quotas
    ]


def used_of(limits: Limits, used: Usage) -> Usage:
    """What is held of each limit, models named as the limits name them."""
    models = tuple(
        (model, sum(count for product, count in used.by_model if is_model(product, model)))
        for model, _ in limits.by_model
    )
    return Usage(gpus=used.gpus, by_model=models, shares=used.shares)


def _refusing(limits: Limits, used: Usage, waiting: Mapping[ObjectKey, Usage]) -> str:
    """The first pod by name that these limits alone refuse, and why; empty if there is none."""
    for pod in sorted(waiting):
        verdict = quota_verdict(limits, used, waiting[pod])
        if not verdict:
            return f"pod {pod} is refused: {verdict.detail}"
    return ""
