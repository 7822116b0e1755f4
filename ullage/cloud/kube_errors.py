"""What a Kubernetes API server says, for providers whose cloud is one."""

from collections.abc import Iterator
from contextlib import contextmanager

from ullage.cloud.api import OutcomeUnknown, Refused, Throttled
from ullage.errors import ApiError, Conflict, Gone, ServerFailure, TooManyRequests, Unreachable, Unreadable

_MAY_HAVE_HAPPENED = (Unreachable, Unreadable, ServerFailure, Conflict, Gone)
"""Of a conflict we know that somebody was faster, and that it can be tried again."""


@contextmanager
def as_cloud_errors(what: str) -> Iterator[None]:
    """The errors of the API inside the block become those of a cloud."""
    try:
        yield
    except TooManyRequests as error:
        raise Throttled(f"{what}: {error.message}", retry_after=error.retry_after or 0.0) from error
    except _MAY_HAVE_HAPPENED as error:
        raise OutcomeUnknown(f"{what}: {error.message}") from error
    except ApiError as error:
        raise Refused(f"{what}: {error.message}") from error
