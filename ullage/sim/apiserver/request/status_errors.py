"""Errors of the server, worded as kube-apiserver words them. A refusal is raised anywhere below the server
and turned into a `Status` response at its edge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.request.field_errors import FieldError, aggregate
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode

LOCK_MESSAGE = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True)
class StatusSubject:
    """Subject of an error: `pods "a"`, `leases.coordination.k8s.io "l"`."""

    resource: str
    group: str = ""
    name: str = ""

    @property
    def qualified(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def details(self) -> JsonObject:
        found = {"name": self.name, "group": self.group, "kind": self.resource}
        return {key: value for key, value in found.items() if value}


class StatusError(Exception):
    """A `Status` with status Failure."""

    def __init__(self, code: int, reason: str, message: str, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata: JsonObject = {}

    def status(self) -> JsonObject:
        body: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body

    def response(self) -> Response:
        after = (self.details or {}).get("retryAfterSeconds")
        return Response(self.code, encode(self.status()), retry_after=after)


def not_found(about: StatusSubject) -> StatusError:
    return StatusError(404, "NotFound", f'{about.qualified} "{about.name}" not found', about.details())


def no_such_resource() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(about: StatusSubject, *, going: bool = False) -> StatusError:
    """`going` is true if the object that has the name is being deleted."""
    still = "object is being deleted: " if going else ""
    return StatusError(409, "AlreadyExists", f'{still}{about.qualified} "{about.name}" already exists', about.details())


def name_not_generated(about: StatusSubject) -> StatusError:
    taken = f'{about.qualified} "{about.name}" already exists'
    message = f"{taken}, the server was not able to generate a unique name for the object"
    return StatusError(409, "AlreadyExists", message, {**about.details(), "retryAfterSeconds": 1})


def conflict(about: StatusSubject, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {about.qualified} "{about.name}": {why}'
    return StatusError(409, "Conflict", message, about.details())


def invalid(about: StatusSubject, errors: Sequence[FieldError]) -> StatusError:
    details = {**about.details(), "causes": [error.cause() for error in errors]}
    return StatusError(422, "Invalid", f'{about.qualified} "{about.name}" is invalid: {aggregate(errors)}', details)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def bad_patch() -> StatusError:
    """Error for a JSON patch that does not apply; the server gives no details."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def unexpected(message: str) -> StatusError:
    """An error the server did not foresee as one of its own."""
    return StatusError(500, "", message)


def forbidden(about: StatusSubject, why: str, causes: Sequence[JsonObject] = ()) -> StatusError:
    details: dict[str, Any] = about.details()
    if causes:
        details["causes"] = list(causes)
    named = f'{about.qualified} "{about.name}" is forbidden: ' if about.name else f"{about.qualified} is forbidden: "
    return StatusError(403, "Forbidden", named + why, details)


def method_not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def no_containers(part: str) -> StatusError:
    """Error for subresources a kubelet would answer: pods are simulated, and no container runs."""
    return StatusError(501, "", f"this cluster is simulated: no containers run in its pods, so there is no {part}", {})


def unsupported_media(accepted: Sequence[str]) -> StatusError:
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return StatusError(415, "UnsupportedMediaType", message)


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def revision_too_large(asked: int, current: int) -> StatusError:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return StatusError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})


def too_many(message: str, retry_after: int | None, causes: Sequence[JsonObject] = ()) -> StatusError:
    details: JsonObject = {"causes": list(causes)} if causes else {}
    if retry_after is not None:
        details["retryAfterSeconds"] = retry_after
    return StatusError(429, "TooManyRequests", message, details)
