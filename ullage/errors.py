"""Errors, and who has to act on each.

* UllageError
  - UserError              the person at the keyboard: the message names the file, field or flag, and the next step
  - ApiError               the Kubernetes API said no, or could not be asked
    - Unreachable          time: no connection, or it broke; retried with back-off
    - Unreadable           us or a proxy between: the response is not one of an API server
    - Unauthorized         the operator: credentials are missing, wrong or expired
    - Forbidden            the operator: a role is missing; the message names verb and resource
    - NotFound             nobody: it is gone, or not there yet
    - AlreadyExists        nobody: another client created it first
    - Conflict             nobody: another client wrote first; read again
    - Gone                 nobody: that moment of history is no longer kept; list again
    - Invalid              us or the user: the object breaks a rule; `causes` name the fields
    - BadRequest           us: the request makes no sense to the server
    - TooManyRequests      time: later, after `retry_after` seconds if the server said so
    - ServerFailure        time: the server broke while answering
  - LeadershipLost         nobody: another replica leads now; this one must not act
  - InvariantBroken        us: a bug; the process writes a dump, logs its path and exits 70 (`control/crash.py`)

A pod that does not fit is not an error. It is a verdict.
"""

from dataclasses import dataclass


class UllageError(Exception):
    """Anything this project raises on purpose."""


class UserError(UllageError):
    """Wrong input of the user; the text is one sentence with the next step."""


class LeadershipLost(UllageError):
    """This replica no longer holds the Lease that lets it act."""


class InvariantBroken(UllageError):
    """An invariant does not hold: a bug."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One field the API server objects to."""

    field: str
    reason: str
    message: str


class ApiError(UllageError):
    """The API server refused, or could not be asked. `code` is the HTTP status, 0 where there was none."""

    code = 0

    def __init__(self, message: str, *, reason: str = "", code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        if code is not None:
            self.code = code


class Unreachable(ApiError):
    """No answer: refused, reset, timed out, or the name does not resolve."""


class Unreadable(ApiError):
    """An answer that is not JSON, or not the object it should be."""


class BadRequest(ApiError):
    """400, 405, 406, 415: the request itself is wrong."""

    code = 400


class Unauthorized(ApiError):
    """401: credentials are missing, wrong or expired."""

    code = 401


class Forbidden(ApiError):
    """403: known, and not allowed."""

    code = 403


class NotFound(ApiError):
    """404: the object, or the whole resource, is not there."""

    code = 404

    def __init__(self, message: str, *, reason: str = "NotFound", kind: str = "") -> None:
        super().__init__(message, reason=reason)
        self.kind = kind
        """The resource of which something is missing, such as `pods`, where the server said so. It need not be the one
        that was asked for: an eviction can fail for want of a disruption budget."""


class AlreadyExists(ApiError):
    """409 on create: the name is taken."""

    code = 409


class Conflict(ApiError):
    """409 on write: a precondition (uid, resourceVersion, state) does not hold."""

    code = 409


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old."""

    code = 410


class Invalid(ApiError):
    """422: the object breaks a rule of its schema."""

    code = 422

    def __init__(self, message: str, *, reason: str = "Invalid", causes: tuple[Cause, ...] = ()) -> None:
        super().__init__(message, reason=reason)
        self.causes = causes


class TooManyRequests(ApiError):
    """429: an eviction a budget does not allow now, or an overloaded server."""

    code = 429

    def __init__(self, message: str, *, reason: str = "TooManyRequests", retry_after: float | None = None) -> None:
        super().__init__(message, reason=reason)
        self.retry_after = retry_after


class ServerFailure(ApiError):
    """5xx: not our request's fault as far as the server can tell."""

    code = 500
