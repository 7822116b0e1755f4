"""The strictest of several limits."""

import pytest

from ullage.model.quota import Limits, strictest


@pytest.mark.parametrize(
    ("several", "expected"),
    [
        pytest.param([], Limits(), id="no-quota-no-limit"),
        pytest.param([Limits(gpus=4), Limits(gpus=2), Limits(shares=500)], Limits(gpus=2, shares=500), id="the-lowest"),
        pytest.param([Limits(gpus=0), Limits(gpus=4)], Limits(gpus=0), id="none-at-all-is-a-limit"),
        pytest.param(
            [Limits(by_model=(("b", 3), ("c", 1))), Limits(by_model=(("a", 2), ("b", 1)))],
            Limits(by_model=(("a", 2), ("b", 1), ("c", 1))),
            id="each-model-on-its-own",
        ),
    ],
)
def test_strictest(several: list[Limits], expected: Limits) -> None:
    assert strictest(several) == expected
    assert strictest(reversed(several)) == expected
