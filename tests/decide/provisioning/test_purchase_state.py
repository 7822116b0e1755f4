"""How long a provisioner that failed is left alone."""

import pytest

from ullage.decide.provisioning.purchase_state import FORGIVEN_AFTER, MINUTE, after_failure
from ullage.model.provisioner import BackOff, CloudFailure
from ullage.model.units import Instant, Seconds


@pytest.mark.parametrize(
    ("before", "failure", "wait", "failures"),
    [
        pytest.param(None, CloudFailure.CAPACITY, 2 * MINUTE, 1, id="the-first"),
        pytest.param((1, -1.0), CloudFailure.CAPACITY, 4 * MINUTE, 2, id="one-after-the-end-doubles"),
        pytest.param((1, 60.0), CloudFailure.CAPACITY, 2 * MINUTE, 1, id="one-before-the-end-moves-it"),
        pytest.param((9, -1.0), CloudFailure.CAPACITY, 30 * MINUTE, 10, id="never-longer-than-the-longest"),
        pytest.param((9, -FORGIVEN_AFTER - 1), CloudFailure.CAPACITY, 2 * MINUTE, 1, id="forgotten-after-hours"),
        pytest.param((3, 900.0), CloudFailure.THROTTLED, 900.0, 1, id="a-lesser-failure-does-not-shorten-it"),
        pytest.param(None, CloudFailure.THROTTLED, 5.0, 1, id="too-many-calls"),
    ],
)
def test_back_off(before: tuple[int, float] | None, failure: CloudFailure, wait: float, failures: int) -> None:
    now = 10_000_000.0
    known = before and BackOff(failure=CloudFailure.CAPACITY, failures=before[0], until=Instant(now + before[1]))
    after = after_failure(known or None, failure, now=Instant(now))
    assert (after.until - now, after.failures) == (wait, failures)


def test_a_cloud_that_says_how_long_is_believed() -> None:
    assert after_failure(None, CloudFailure.THROTTLED, now=Instant(0.0), at_least=Seconds(77.0)).until == 77.0
