"""OpenAPI paths of a kind, with the operations of each."""

from collections.abc import Iterator, Sequence

from ullage.sim.apiserver.kinds.kind import ServedKind
from ullage.sim.apiserver.openapi.schemas import schema_name
from ullage.sim.apiserver.storage.json_bytes import JsonObject

_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"
_WRITING = ("dryRun", "fieldManager", "fieldValidation")
_LISTING = ("continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "timeoutSeconds", "watch")
_DELETING = ("dryRun", "gracePeriodSeconds", "propagationPolicy")
_ACTIONS = {
    "post": ("create", "post", _WRITING),
    "delete": ("delete", "delete", _DELETING),
    "deletecollection": ("delete", "deletecollection", (*_LISTING, *_DELETING)),
    "get": ("get", "get", ()),
    "list": ("get", "list", _LISTING),
    "put": ("put", "put", _WRITING),
    "patch": ("patch", "patch", (*_WRITING, "force")),
}


def paths_of(kind: ServedKind) -> Iterator[tuple[str, JsonObject]]:
    """The collection, the object, and its status and scale."""
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    place = f"{base}/namespaces/{{namespace}}" if kind.namespaced else base
    if kind.namespaced and "list" in kind.verbs:
        yield f"{base}/{kind.plural}", _operations(kind, ("list",), ())
    named = {"create": "post", "list": "list", "deletecollection": "deletecollection"}
    many = [name for verb, name in named.items() if verb in kind.verbs]
    scope = ("namespace",) if kind.namespaced else ()
    yield f"{place}/{kind.plural}", _operations(kind, many, scope)
    if "get" not in kind.verbs:
        return
    yield f"{place}/{kind.plural}/{{name}}", _operations(kind, ("get", "put", "delete", "patch"), (*scope, "name"))
    for part in kind.subresources:
        if part in ("status", "scale"):
            whole = f"{place}/{kind.plural}/{{name}}/{part}"
            yield whole, _operations(kind, ("get", "put", "patch"), (*scope, "name"), scale=part == "scale")


def _operations(kind: ServedKind, names: Sequence[str], scope: Sequence[str], *, scale: bool = False) -> JsonObject:
    about = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    if scale:
        about = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    schema = {"$ref": f"#/components/schemas/{schema_name(kind)}"}
    found: JsonObject = {}
    for name in names:
        _, action, query = _ACTIONS[name]
        method = {"list": "get", "deletecollection": "delete"}.get(name, name)
        operation: JsonObject = {
            "operationId": f"{action}{kind.group.title().replace('.', '')}{kind.version.title()}{kind.kind}",
            "parameters": [_parameter(word, "query") for word in query],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": about,
        }
        if name == "patch":
            medias = _PATCHES if kind.custom else (*_PATCHES, _STRATEGIC)
            operation["requestBody"] = {"content": {media: {"schema": {"type": "object"}} for media in medias}}
        elif name in ("post", "put"):
            operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        found[method] = operation
    found["parameters"] = [_parameter(word, "path") for word in scope]
    return found


def _parameter(name: str, place: str) -> JsonObject:
    kinds = {"force": "boolean", "watch": "boolean", "limit": "integer", "timeoutSeconds": "integer"}
    schema = {"type": kinds.get(name, "string"), "uniqueItems": True}
    return {"name": name, "in": place, "schema": schema} | ({"required": True} if place == "path" else {})
