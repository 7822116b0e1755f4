"""The documents: an index, and one for each group and version."""

import hashlib

from ullage.kube.client.transport import JSON, Request, Response
from ullage.sim.apiserver.custom.kinds import CustomRules
from ullage.sim.apiserver.kinds.kind import ServedKind
from ullage.sim.apiserver.kinds.registry import KindRegistry
from ullage.sim.apiserver.openapi.paths import paths_of
from ullage.sim.apiserver.openapi.schemas import schemas_of
from ullage.sim.apiserver.release import MINOR
from ullage.sim.apiserver.request.negotiation import clauses
from ullage.sim.apiserver.request.status_errors import StatusError
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode

_ROOT = "/openapi/v3"


def describe(request: Request, registry: KindRegistry) -> Response | None:
    """Response to a path below /openapi/v3; None for other paths, and where no kind is served."""
    path = request.path.rstrip("/")
    if path != _ROOT and not path.startswith(_ROOT + "/"):
        return None
    if not any(media in (JSON, "application/*", "*/*") for media, _ in clauses(request.accept)):
        raise StatusError(406, "NotAcceptable", f"only the following media types are accepted: {JSON}", {})
    if path == _ROOT:
        return Response(200, encode({"paths": _index(registry)}))
    kinds = _by_place(registry).get(path.removeprefix(_ROOT + "/"))
    return Response(200, encode(document(kinds))) if kinds else None


def document(kinds: list[ServedKind]) -> JsonObject:
    """Everything about the kinds of one group and version."""
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": MINOR},
        "paths": {path: item for kind in kinds for path, item in paths_of(kind)},
        "components": {"schemas": {name: schema for kind in kinds for name, schema in schemas_of(kind)}},
    }


def _by_place(registry: KindRegistry) -> dict[str, list[ServedKind]]:
    places: dict[str, list[ServedKind]] = {}
    for kind in registry.kinds():
        place = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
        places.setdefault(place, []).append(kind)
    return places


def _index(registry: KindRegistry) -> JsonObject:
    return {
        place: {"serverRelativeURL": f"{_ROOT}/{place}?hash={_fingerprint(kinds)}"}
        for place, kinds in _by_place(registry).items()
    }


def _fingerprint(kinds: list[ServedKind]) -> str:
    """Changes with what the document says, so that clients may keep it."""
    parts = [MINOR.encode()]
    for kind in kinds:
        parts.append(f"{kind.id}/{kind.version}".encode())
        if isinstance(kind.rules, CustomRules):
            parts.append(encode(kind.rules.published))
    return hashlib.sha256(b"\n".join(parts)).hexdigest()[:32].upper()
