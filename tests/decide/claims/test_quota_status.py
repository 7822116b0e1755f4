"""How quotas stand: by their own names for models, and exhausted only where they are in the way."""

from ullage.decide.claims.quota_status import quota_statuses, used_of
from ullage.model.fact_event import ObjectKey
from ullage.model.quota import Quota, QuotaLimits, QuotaUsage

H100 = "NVIDIA H100 80GB HBM3"
HELD = QuotaUsage(gpus=6, by_model=((H100, 4), ("NVIDIA A100-SXM4-40GB", 2)), shares=500)
POD, OTHER = ObjectKey("team", "p"), ObjectKey("team", "a")


def a_quota(name: str, limits: QuotaLimits) -> Quota:
    return Quota(key=ObjectKey("team", name), uid=f"uid-{name}", generation=2, limits=limits)


def test_models_are_counted_by_the_names_of_the_limits() -> None:
    limits = QuotaLimits(by_model=(("A100", 4), ("H100", 4), ("H200", 1)))
    assert used_of(limits, HELD) == QuotaUsage(gpus=6, by_model=(("A100", 2), ("H100", 4), ("H200", 0)), shares=500)


def test_only_the_quota_that_refuses_is_exhausted() -> None:
    tight, wide = a_quota("tight", QuotaLimits(gpus=8)), a_quota("wide", QuotaLimits(gpus=100))
    first, second = quota_statuses([tight, wide], HELD, {POD: QuotaUsage(gpus=4)})
    assert (first.exhausted, second.exhausted) == (True, False)
    assert first.message == "pod team/p is refused: 4 GPUs asked, 6 of 8 are held"
    assert (first.uid, first.generation) == ("uid-tight", 2)


def test_the_first_pod_by_name_is_the_example() -> None:
    (found,) = quota_statuses(
        [a_quota("q", QuotaLimits(gpus=6))], HELD, {POD: QuotaUsage(gpus=1), OTHER: QuotaUsage(gpus=2)}
    )
    assert found.message.startswith("pod team/a is refused")


def test_where_no_quota_alone_refuses_all_may_be_in_the_way() -> None:
    """A gang as a whole, or the one model that fits: what one pod takes at least does not show it."""
    quotas = [a_quota("a", QuotaLimits(gpus=100)), a_quota("b", QuotaLimits(gpus=90))]
    assert [one.exhausted for one in quota_statuses(quotas, HELD, {POD: QuotaUsage(gpus=1)})] == [True, True]


def test_nobody_waits_nothing_is_exhausted() -> None:
    (found,) = quota_statuses([a_quota("q", QuotaLimits(gpus=6))], HELD, {})
    assert (found.exhausted, found.message) == (False, "")
