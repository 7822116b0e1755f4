"""How many GPUs a namespace may hold: limits, what is used of them, and the strictest of several."""

from collections.abc import Iterable

import msgspec

from ullage.model.event import ObjectKey


class Limits(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The most that may be held at once. None and models that are not named are not limited."""

    gpus: int | None = None
    """Whole GPUs, of whatever model."""
    by_model: tuple[tuple[str, int], ...] = ()
    """Whole GPUs of a model, sorted by model."""
    shares: int | None = None
    """Parts of GPUs, in thousandths."""


class Usage(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is held. Models of which nothing is held need not be named."""

    gpus: int = 0
    by_model: tuple[tuple[str, int], ...] = ()
    shares: int = 0


class Quota(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one GpuQuota."""

    key: ObjectKey
    uid: str
    generation: int
    limits: Limits


def strictest(several: Iterable[Limits]) -> Limits:
    """What holds where several limits apply: the lowest of each kind. Of none: no limit."""
    gpus: int | None = None
    shares: int | None = None
    by_model: dict[str, int] = {}
    for limits in several:
        gpus = _lower(gpus, limits.gpus)
        shares = _lower(shares, limits.shares)
        for model, count in limits.by_model:
            by_model[model] = min(count, by_model.get(model, count))
    return Limits(gpus=gpus, by_model=tuple(sorted(by_model.items())), shares=shares)


def _lower(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
