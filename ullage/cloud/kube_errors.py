"""Errors of a Kubernetes API server as cloud errors, for providers whose cloud is one."""

from collections.abc import Iterator
from contextlib import contextmanager

from ullage.cloud.api import OutcomeUnknown, RequestRejected, Throttled
from ullage.errors import ApiError, Conflict, Gone, ServerFailure, TooManyRequests, Unreachable, Unreadable

_MAY_HAVE_HAPPENED = (Unreachable, Unreadable, ServerFailure, Conflict, Gone)
"""Errors after which a write may have taken effect; and Conflict: another writer was faster, a retry may succeed."""


@contextmanager
def as_cloud_errors(what: str) -> Iterator[None]:
    """Turn API errors raised in the block into cloud errors."""
    try:
        yield
    except TooManyRequests as error:
        raise Throttled(f"{what}: {error.message}", retry_after=error.retry_after or 0.0) from error
    except _MAY_HAVE_HAPPENED as error:
        raise OutcomeUnknown(f"{what}: {error.message}") from error
    except ApiError as error:
        raise RequestRejected(f"{what}: {error.message}") from error
