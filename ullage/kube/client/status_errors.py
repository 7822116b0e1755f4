"""Errors of `ullage.errors` from an API server's responses. Status objects are read here only."""

import re

import msgspec

from ullage import errors
from ullage.kube.client.transport import Response

_FIRST_WORDS = 300


class _StatusCause(msgspec.Struct, gc=False):
    field: str = ""
    reason: str = ""
    message: str = ""


class _StatusDetails(msgspec.Struct, gc=False, rename="camel"):
    kind: str = ""
    causes: list[_StatusCause] | None = None
    retry_after_seconds: float = 0


class ApiStatus(msgspec.Struct, gc=False):
    """Status of a failed call: the body of the response, or the object of a watch's ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: _StatusDetails | None = None


_decode_status = msgspec.json.Decoder(ApiStatus).decode

_BY_CODE: dict[int, type[errors.ApiError]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    410: errors.Gone,
}


def from_response(response: Response, what: str) -> errors.ApiError:
    """The error a refusal means. `what` was asked ("get pods a/b") and helps where the server does not say."""
    try:
        status = _decode_status(response.body)
    except msgspec.DecodeError:
        status = ApiStatus(message=_said(what, response))
    # The body may come from a proxy that has its own idea of `code`; the status line is what was answered.
    status.code = response.status
    if not status.message:
        status.message = f"{what}: the server answered {response.status} and gave no reason"
    return from_status(status, response.retry_after)


def from_status(status: ApiStatus, retry_after: float | None = None) -> errors.ApiError:
    """The error a Status object means."""
    code, reason, message = status.code, status.reason, status.message
    if code == 404:
        return errors.NotFound(message, reason=reason, kind=status.details.kind if status.details else "")
    if code == 409:
        kind = errors.AlreadyExists if reason == "AlreadyExists" else errors.Conflict
        return kind(message, reason=reason)
    if code == 422:
        return errors.Invalid(message, reason=reason or "Invalid", causes=_causes(status))
    if code == 429:
        wait = retry_after if retry_after is not None else _wait_in(status)
        return errors.TooManyRequests(message, reason=reason or "TooManyRequests", retry_after=wait)
    if code in _BY_CODE:
        return _BY_CODE[code](message, reason=reason)
    if 400 <= code < 500:
        return errors.BadRequest(message, reason=reason, code=code)
    if 300 <= code < 400:
        return errors.Unreadable(f"{message} (an API server does not redirect: is the address right?)", code=code)
    return errors.ServerFailure(message, reason=reason, code=code or 500)


def from_error_event(body: msgspec.Raw, what: str) -> errors.ApiError:
    """The error in a watch's ERROR event."""
    try:
        status = _decode_status(body)
    except msgspec.DecodeError:
        return errors.Unreadable(f"{what}: an ERROR event without a readable status")
    status.message = status.message or f"{what}: the server ended the watch with {status.code} and gave no reason"
    return from_status(status)


def _causes(status: ApiStatus) -> tuple[errors.Cause, ...]:
    named = status.details.causes if status.details else None
    return tuple(errors.Cause(field=one.field, reason=one.reason, message=one.message) for one in named or ())


def _wait_in(status: ApiStatus) -> float | None:
    return (status.details.retry_after_seconds or None) if status.details else None


def _said(what: str, response: Response) -> str:
    """Message for a response that is no Status object: call, status code and first words of the body."""
    words = _words_of(response.body)
    return f"{what}: the server answered {response.status}: {words}" if words else ""


def _words_of(body: bytes) -> str:
    """Return the first words of a plain text or a proxy's HTML page, without the markup."""
    text = body[: 4 * _FIRST_WORDS].decode("utf-8", "replace")
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())[:_FIRST_WORDS]
