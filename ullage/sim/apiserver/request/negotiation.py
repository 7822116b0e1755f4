"""Content negotiation of a response: plain, table or metadata only, in JSON or YAML."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import yaml

from ullage.kube.client.transport import JSON, Request, Response
from ullage.sim.apiserver.printing.table import API, METADATA, NO_OBJECT, OBJECT, TableMaker, metadata_only
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.field_errors import unsupported
from ullage.sim.apiserver.request.status_errors import StatusError, StatusSubject, invalid
from ullage.sim.apiserver.storage.json_bytes import JsonObject, decode, encode

YAML = "application/yaml"
_MEDIA = {JSON: JSON, "application/*": JSON, "*/*": JSON, YAML: YAML}
_ACCEPTED = "application/json, application/yaml"


class ResponseForm(Enum):
    PLAIN = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


@dataclass(frozen=True, slots=True)
class AcceptedForm:
    form: ResponseForm
    media: str


PLAIN_JSON = AcceptedForm(ResponseForm.PLAIN, JSON)


def clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Media types with their parameters, in the order they were named."""
    found: list[tuple[str, dict[str, str]]] = []
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        pairs = (part.partition("=") for part in rest)
        found.append((media, {name.strip(): value.strip() for name, _, value in pairs}))
    return found


def wanted(request: Request) -> AcceptedForm:
    """The first form named that is known here. Raises StatusError with 406."""
    if request.accept in (JSON, "*/*"):
        return PLAIN_JSON
    for media, said in clauses(request.accept):
        form = _form(said)
        if media in _MEDIA and form is not None:
            return AcceptedForm(form, _MEDIA[media])
    message = f"only the following media types are accepted: {_ACCEPTED}"
    raise StatusError(406, "NotAcceptable", message, {})


def _form(said: dict[str, str]) -> ResponseForm | None:
    name = said.get("as", "")
    if not name:
        return ResponseForm.PLAIN
    if said.get("g") != "meta.k8s.io" or said.get("v") not in ("v1", "v1beta1"):
        return None
    return next((form for form in ResponseForm if form.value == name), None)


def dressed(call: ApiCall, response: Response, now: Callable[[], float]) -> Response:
    """The response in the form its caller wants. Raises StatusError."""
    form = wanted(call.request)
    if form == PLAIN_JSON:
        return response
    said = decode(response.body)
    if form.form is not ResponseForm.PLAIN and said.get("kind") != "Status":
        said = _formed(call, form.form, said, now)
    if form.media == YAML:
        return Response(response.status, yaml.safe_dump(said).encode(), content_type=YAML, warnings=response.warnings)
    return Response(response.status, encode(said), warnings=response.warnings)


def _formed(call: ApiCall, form: ResponseForm, said: JsonObject, now: Callable[[], float]) -> JsonObject:
    if form is ResponseForm.TABLE:
        return TableMaker(call.kind, _include(call), now).whole(said)
    if "items" not in said:
        return metadata_only(said)
    items = [metadata_only(item) for item in said["items"]]
    return {"kind": "PartialObjectMetadataList", "apiVersion": API, "metadata": said["metadata"], "items": items}


def dress_of(call: ApiCall, now: Callable[[], float]) -> Callable[[bytes], bytes] | None:
    """Function that turns each line of a watch into the form its caller wants; None for plain. Raises StatusError."""
    form = wanted(call.request).form
    if form is ResponseForm.TABLE:
        return TableMaker(call.kind, _include(call), now).line
    return None if form is ResponseForm.PLAIN else _metadata_line


def _metadata_line(line: bytes) -> bytes:
    event = decode(line)
    if event["type"] == "ERROR":
        return line
    return encode({"type": event["type"], "object": metadata_only(event["object"])})


def _include(call: ApiCall) -> str:
    word = call.query.get("includeObject", "")
    if word not in ("", NO_OBJECT, METADATA, OBJECT):
        raise invalid(
            StatusSubject("TableOptions", "meta.k8s.io"), [unsupported("includeObject", word, [METADATA, OBJECT])]
        )
    return word
