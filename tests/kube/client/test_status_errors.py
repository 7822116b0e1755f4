"""Which error an API server's refusal becomes."""

from typing import Any

import msgspec
import pytest

from ullage import errors
from ullage.kube.client import status_errors
from ullage.kube.client.transport import Response


def refusal(code: int, reason: str = "", **more: Any) -> Response:
    return Response(
        code, msgspec.json.encode({"kind": "Status", "code": code, "reason": reason, "message": "m"} | more)
    )


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        pytest.param(400, "BadRequest", errors.BadRequest, id="bad-request"),
        pytest.param(401, "Unauthorized", errors.Unauthorized, id="unauthorized"),
        pytest.param(403, "Forbidden", errors.Forbidden, id="forbidden"),
        pytest.param(404, "NotFound", errors.NotFound, id="not-found"),
        pytest.param(405, "MethodNotAllowed", errors.BadRequest, id="method-not-allowed"),
        pytest.param(406, "NotAcceptable", errors.BadRequest, id="not-acceptable"),
        pytest.param(409, "AlreadyExists", errors.AlreadyExists, id="already-exists"),
        pytest.param(409, "Conflict", errors.Conflict, id="conflict"),
        pytest.param(409, "", errors.Conflict, id="conflict-without-a-reason"),
        pytest.param(410, "Expired", errors.Gone, id="expired"),
        pytest.param(413, "RequestEntityTooLarge", errors.BadRequest, id="too-large"),
        pytest.param(415, "UnsupportedMediaType", errors.BadRequest, id="media-type"),
        pytest.param(422, "Invalid", errors.Invalid, id="invalid"),
        pytest.param(429, "TooManyRequests", errors.TooManyRequests, id="too-many"),
        pytest.param(500, "InternalError", errors.ServerFailure, id="internal"),
        pytest.param(503, "ServiceUnavailable", errors.ServerFailure, id="unavailable"),
        pytest.param(504, "Timeout", errors.ServerFailure, id="timeout"),
        pytest.param(302, "", errors.Unreadable, id="redirect"),
    ],
)
def test_each_status_has_its_error(code: int, reason: str, kind: type[errors.ApiError]) -> None:
    error = status_errors.from_response(refusal(code, reason), "get pods")
    assert type(error) is kind
    assert error.code == code
    assert error.message.startswith("m")
    if reason:
        assert error.reason == reason


@pytest.mark.parametrize(
    ("details", "kind"),
    [
        pytest.param(
            {"kind": "poddisruptionbudgets", "group": "policy", "name": "b"}, "poddisruptionbudgets", id="said"
        ),
        pytest.param({}, "", id="unsaid"),
        pytest.param(None, "", id="no-details"),
    ],
)
def test_not_found_says_of_what(details: Any, kind: str) -> None:
    error = status_errors.from_response(refusal(404, "NotFound", details=details), "evict pods a/b")
    assert isinstance(error, errors.NotFound)
    assert error.kind == kind


def test_invalid_names_the_fields() -> None:
    cause = {"field": "spec.count", "reason": "FieldValueInvalid", "message": "must be positive"}
    error = status_errors.from_response(refusal(422, "Invalid", details={"causes": [cause]}), "create")
    assert isinstance(error, errors.Invalid)
    assert error.causes == (errors.Cause("spec.count", "FieldValueInvalid", "must be positive"),)


@pytest.mark.parametrize(
    ("header", "details", "wait"),
    [
        pytest.param(3.0, {"retryAfterSeconds": 9}, 3.0, id="the-header-wins"),
        pytest.param(None, {"retryAfterSeconds": 9}, 9.0, id="else-the-details"),
        pytest.param(None, {}, None, id="else-nobody-knows"),
        pytest.param(0.0, {}, 0.0, id="zero-is-an-answer"),
    ],
)
def test_too_many_requests_says_when_to_come_back(header: float | None, details: Any, wait: float | None) -> None:
    body = refusal(429, "TooManyRequests", details=details).body
    error = status_errors.from_response(Response(429, body, header), "get pods")
    assert isinstance(error, errors.TooManyRequests)
    assert error.retry_after == wait


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            b"<html><h1>502 Bad\n Gateway</h1></html>",
            "list pods: the server answered 502: 502 Bad Gateway",
            id="a-proxys-page",
        ),
        pytest.param(
            b"no endpoints available", "list pods: the server answered 502: no endpoints available", id="plain-text"
        ),
        pytest.param(b"", "list pods: the server answered 502 and gave no reason", id="nothing"),
        pytest.param(b"{}", "list pods: the server answered 502 and gave no reason", id="an-empty-object"),
        pytest.param(b"\xff\xfe\x00", "list pods: the server answered 502: \ufffd\ufffd\x00", id="binary"),
        pytest.param(b'"text"', 'list pods: the server answered 502: "text"', id="json-that-is-no-object"),
    ],
)
def test_whatever_a_proxy_answers_there_is_a_message(body: bytes, message: str) -> None:
    error = status_errors.from_response(Response(502, body), "list pods")
    assert isinstance(error, errors.ServerFailure)
    assert error.code == 502
    assert error.message == message


def test_a_long_page_is_cut() -> None:
    assert len(status_errors.from_response(Response(500, b"x" * 100_000), "get").message) <= 350
