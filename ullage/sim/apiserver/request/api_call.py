"""One request, understood: what it is about, and how the caller wants it done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from ullage.kube.client.transport import Request
from ullage.sim.apiserver.kinds.kind import ServedKind
from ullage.sim.apiserver.kinds.registry import RequestTarget
from ullage.sim.apiserver.request.admission import CREATE, UPDATE, AdmissionAttempt
from ullage.sim.apiserver.request.field_errors import unsupported, wrong
from ullage.sim.apiserver.request.status_errors import (
    StatusError,
    StatusSubject,
    bad_request,
    invalid,
    unsupported_media,
)
from ullage.sim.apiserver.storage.json_bytes import JsonObject, decode
from ullage.sim.apiserver.types.protobuf_reader import PROTOBUF, NotReadable, read_binary


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request whose path has been resolved."""

    target: RequestTarget
    request: Request
    user: str
    warnings: list[str] = field(default_factory=list)
    """Told to the caller with the answer."""

    @property
    def kind(self) -> ServedKind:
        return self.target.kind

    @property
    def key(self) -> str:
        return self.kind.key(self.target.namespace, self.target.name)

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query

    @property
    def manager(self) -> str:
        """Field manager of a write: the one the caller names, else the user."""
        return self.query.get("fieldManager", "") or self.user

    def arrival(self, obj: JsonObject, old: JsonObject | None = None) -> AdmissionAttempt:
        """Admission attempt for the object this call is about to store."""
        target = self.target
        return AdmissionAttempt(
            group=self.kind.group,
            plural=self.kind.plural,
            part=target.subresource,
            operation=CREATE if old is None else UPDATE,
            namespace=target.namespace,
            name=target.name or obj["metadata"].get("name", ""),
            user=self.user,
            obj=obj,
            old=old,
        )

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in ("true", "1", "t")

    def number(self, name: str) -> int | None:
        text = self.query.get(name, "")
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None

    def dry_run(self, options: str) -> bool:
        """Raises StatusError if the value is not All; `options` is the server's name for this verb's options."""
        word = self.query.get("dryRun", "")
        if word in ("", "All"):
            return bool(word)
        raise invalid(StatusSubject(options, "meta.k8s.io"), [unsupported("dryRun", [word], ["All"])])

    def body(self) -> JsonObject:
        """The object that was sent. Raises StatusError if it is no object, or of another kind."""
        obj = self.json()
        if not isinstance(obj, dict) or not isinstance(obj.get("metadata") or {}, dict):
            raise bad_request(
                f"{self.kind.kind} in version {quoted(self.kind.version)} cannot be handled as a {self.kind.kind}"
            )
        self._check_type(obj)
        obj["metadata"] = obj.get("metadata") or {}
        return obj

    def plain_body(self, kind: str) -> JsonObject:
        """Body sent to a subresource: of another kind, whose members are objects or scalars."""
        said = self.json()
        members = ("metadata", "target", "deleteOptions", "spec")
        if not isinstance(said, dict) or not all(isinstance(said.get(name) or {}, dict) for name in members):
            raise bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: it is not an object')
        return said

    def json(self) -> Any:
        if "yaml" in self.request.content_type:
            return self._yaml()
        if self.request.content_type.startswith(PROTOBUF):
            return self._binary()
        if "json" not in self.request.content_type:
            raise unsupported_media(["application/json", "application/yaml", PROTOBUF])
        try:
            return decode(self.request.body or b"")
        except ValueError as error:
            shown = (self.request.body or b"<empty>").decode(errors="replace")
            wanted = f"the object provided is unrecognized (must be of type {self.kind.kind})"
            raise bad_request(
                f"{wanted}: couldn't get version/kind; json parse error: {error} ({shown[:200]})"
            ) from error

    def _yaml(self) -> Any:
        try:
            return yaml.safe_load(self.request.body or b"")
        except yaml.YAMLError as error:
            raise bad_request(f"error decoding YAML: {error}") from error

    def _binary(self) -> Any:
        if self.kind.custom and self.request.method != "DELETE":
            raise unsupported_media(["application/json", "application/yaml"])
        try:
            return read_binary(self.request.body or b"")
        except NotReadable as error:
            wanted = f"the object provided is unrecognized (must be of type {self.kind.kind})"
            raise bad_request(f"{wanted}: {error}") from error

    def _check_type(self, obj: JsonObject) -> None:
        if self.kind.custom and not obj.get("kind"):
            sent = (self.request.body or b"").decode()
            wanted = f"the object provided is unrecognized (must be of type {self.kind.kind})"
            raise bad_request(f"{wanted}: Object 'Kind' is missing in '{sent}' ({sent[:30]} ...)")
        kind, version = obj.get("kind") or self.kind.kind, obj.get("apiVersion") or self.kind.api_version
        if kind == self.kind.kind and version == self.kind.api_version:
            return
        if version != self.kind.api_version:
            said, wanted = f"the API version in the data ({version})", self.kind.api_version
            raise bad_request(f"{said} does not match the expected API version ({wanted})")
        wanted = self.kind.kind
        if self.kind.custom:
            problem = wrong("kind", kind, f"must be {wanted}")
            raise invalid(StatusSubject(kind, self.kind.group, (obj.get("metadata") or {}).get("name", "")), [problem])
        raise bad_request(
            f"{kind} in version {quoted(version)} cannot be handled as a {wanted}: {_unconvertible(self.kind, kind)}"
        )


def _unconvertible(wanted: ServedKind, kind: str) -> str:
    group = wanted.group.partition(".")[0] or "core"
    return f"converting ({wanted.version}.{kind}) to ({group}.{wanted.kind}): unknown conversion"


def quoted(text: str) -> str:
    return f'"{text}"'


def unknown_format() -> StatusError:
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
