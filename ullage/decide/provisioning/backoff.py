"""Back-off of a provisioner after a failure: exponential, by kind of failure."""

from collections.abc import Mapping

from ullage.model.provisioner import BackOff, CloudFailure

MINUTE = 60.0

WAITS: Mapping[CloudFailure, tuple[float, float]] = {
    CloudFailure.CAPACITY: (2 * MINUTE, 30 * MINUTE),
    CloudFailure.QUOTA: (10 * MINUTE, 60 * MINUTE),
    CloudFailure.THROTTLED: (5.0, 2 * MINUTE),
    CloudFailure.REFUSED: (30 * MINUTE, 30 * MINUTE),
    CloudFailure.NEVER_JOINED: (5 * MINUTE, 30 * MINUTE),
    CloudFailure.UNKNOWN: (5.0, 2 * MINUTE),
}
"""First and longest wait in seconds."""

FORGIVEN_AFTER = 180 * MINUTE
"""Seconds after the end of a back-off. A failure later than that counts as a first one."""


MOST_ASKED_FOR = 10 * MINUTE
"""Upper bound in seconds on the wait a cloud may ask for; longer ones are cut to it."""
_ROUNDED = 2.0
"""Seconds of tolerance: instants are written rounded up."""


def _wait(failure: CloudFailure, failures: int) -> float:
    first, longest = WAITS[failure]
    return min(longest, first * float(1 << min(max(failures, 1) - 1, 16)))


def within_reason(back_off: BackOff, *, now: float) -> BackOff:
    """The same back-off, unless it ends later than any can: then a wrong clock wrote it, and it begins now."""
    wait = _wait(back_off.failure, back_off.failures)
    if back_off.until <= now + max(wait, MOST_ASKED_FOR) + _ROUNDED:
        return back_off
    return BackOff(failure=back_off.failure, failures=back_off.failures, until=now + wait, message=back_off.message)


def after_failure(
    before: BackOff | None, failure: CloudFailure, *, now: float, message: str = "", at_least: float = 0.0
) -> BackOff:
    """Back-off after one more failure. A failure during a back-off moves its end, and does not lengthen the wait.

    `at_least` is the wait in seconds that the cloud itself asked for.
    """
    failures = 1
    if before is not None and before.failure is failure and now <= before.until + FORGIVEN_AFTER:
        failures = before.failures if now < before.until else before.failures + 1
    wait = max(min(at_least, MOST_ASKED_FOR), _wait(failure, failures))
    until = now + wait if before is None else max(before.until, now + wait)
    return BackOff(failure=failure, failures=failures, until=until, message=message)
