"""The strictest of several limits."""

import pytest

from ullage.model.quota import QuotaLimits, strictest


@pytest.mark.parametrize(
    ("several", "expected"),
    [
        pytest.param([], QuotaLimits(), id="no-quota-no-limit"),
        pytest.param(
            [QuotaLimits(gpus=4), QuotaLimits(gpus=2), QuotaLimits(shares=500)],
            QuotaLimits(gpus=2, shares=500),
            id="the-lowest",
        ),
        pytest.param([QuotaLimits(gpus=0), QuotaLimits(gpus=4)], QuotaLimits(gpus=0), id="none-at-all-is-a-limit"),
        pytest.param(
            [QuotaLimits(by_model=(("b", 3), ("c", 1))), QuotaLimits(by_model=(("a", 2), ("b", 1)))],
            QuotaLimits(by_model=(("a", 2), ("b", 1), ("c", 1))),
            id="each-model-on-its-own",
        ),
    ],
)
def test_strictest(several: list[QuotaLimits], expected: QuotaLimits) -> None:
    assert strictest(several) == expected
    assert strictest(reversed(several)) == expected
