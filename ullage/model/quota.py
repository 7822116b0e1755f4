"""GPU quotas of namespaces: limits, usage, and the strictest of several limits."""

from collections.abc import Iterable

import msgspec

from ullage.model.fact_event import ObjectKey


class QuotaLimits(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Upper bounds on GPUs held at once. None and models that are not named are not limited."""

    gpus: int | None = None
    """Whole GPUs, of whatever model."""
    by_model: tuple[tuple[str, int], ...] = ()
    """Whole GPUs of a model, sorted by model."""
    shares: int | None = None
    """Parts of GPUs, in thousandths."""


class QuotaUsage(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """GPUs held. Models of which nothing is held need not be named."""

    gpus: int = 0
    by_model: tuple[tuple[str, int], ...] = ()
    shares: int = 0


class Quota(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one GpuQuota."""

    key: ObjectKey
    uid: str
    generation: int
    limits: QuotaLimits


def strictest(several: Iterable[QuotaLimits]) -> QuotaLimits:
    """Limits in force where several apply: the lowest of each kind. Without any, no limit."""
    gpus: int | None = None
    shares: int | None = None
    by_model: dict[str, int] = {}
    for limits in several:
        gpus = _lower(gpus, limits.gpus)
        shares = _lower(shares, limits.shares)
        for model, count in limits.by_model:
            by_model[model] = min(count, by_model.get(model, count))
    return QuotaLimits(gpus=gpus, by_model=tuple(sorted(by_model.items())), shares=shares)


def _lower(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
