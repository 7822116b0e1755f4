"""How long a provisioner that failed is left alone. Exponential, by what went wrong."""

from collections.abc import Mapping

from ullage.model.provisioner import BackOff, Failure

MINUTE = 60.0

WAITS: Mapping[Failure, tuple[float, float]] = {
    Failure.CAPACITY: (2 * MINUTE, 30 * MINUTE),
    Failure.QUOTA: (10 * MINUTE, 60 * MINUTE),
    Failure.THROTTLED: (5.0, 2 * MINUTE),
    Failure.REFUSED: (30 * MINUTE, 30 * MINUTE),
    Failure.NEVER_JOINED: (5 * MINUTE, 30 * MINUTE),
    Failure.UNKNOWN: (5.0, 2 * MINUTE),
}
"""First and longest wait in seconds."""

FORGIVEN_AFTER = 180 * MINUTE
"""A failure this long after the last back-off is a first one."""


def after_failure(
    before: BackOff | None, failure: Failure, *, now: float, message: str = "", at_least: float = 0.0
) -> BackOff:
    """The back-off after one more failure. One that comes while backed off moves the end, and not the length.

    `at_least` is how long the cloud itself asked to be left alone.
    """
    failures = 1
    if before is not None and before.failure is failure and now <= before.until + FORGIVEN_AFTER:
        failures = before.failures if now < before.until else before.failures + 1
    first, longest = WAITS[failure]
    wait = max(at_least, min(longest, first * 2 ** min(failures - 1, 16)))
    until = now + wait if before is None else max(before.until, now + wait)
    return BackOff(failure=failure, failures=failures, until=until, message=message)
