"""How long a provisioner that failed is left alone."""

import pytest

from ullage.decide.pool.backoff import FORGIVEN_AFTER, MINUTE, after_failure
from ullage.model.provisioner import BackOff, Failure


@pytest.mark.parametrize(
    ("before", "failure", "wait", "failures"),
    [
        pytest.param(None, Failure.CAPACITY, 2 * MINUTE, 1, id="the-first"),
        pytest.param((1, -1.0), Failure.CAPACITY, 4 * MINUTE, 2, id="one-after-the-end-doubles"),
        pytest.param((1, 60.0), Failure.CAPACITY, 2 * MINUTE, 1, id="one-before-the-end-moves-it"),
        pytest.param((9, -1.0), Failure.CAPACITY, 30 * MINUTE, 10, id="never-longer-than-the-longest"),
        pytest.param((9, -FORGIVEN_AFTER - 1), Failure.CAPACITY, 2 * MINUTE, 1, id="forgotten-after-hours"),
        pytest.param((3, 900.0), Failure.THROTTLED, 900.0, 1, id="a-lesser-failure-does-not-shorten-it"),
        pytest.param(None, Failure.THROTTLED, 5.0, 1, id="too-many-calls"),
    ],
)
def test_back_off(before: tuple[int, float] | None, failure: Failure, wait: float, failures: int) -> None:
    now = 10_000_000.0
    known = before and BackOff(failure=Failure.CAPACITY, failures=before[0], until=now + before[1])
    after = after_failure(known or None, failure, now=now)
    assert (after.until - now, after.failures) == (wait, failures)


def test_a_cloud_that_says_how_long_is_believed() -> None:
    assert after_failure(None, Failure.THROTTLED, now=0.0, at_least=77.0).until == 77.0
