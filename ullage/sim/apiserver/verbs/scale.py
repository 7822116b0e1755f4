"""GET, PUT and PATCH of `scale`: the replicas of anything that has them."""

from typing import Any

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.kinds.kind import ScalePaths
from ullage.sim.apiserver.kinds.registry import RequestTarget
from ullage.sim.apiserver.merge.json_patches import PatchFailed, apply_operations, merge
from ullage.sim.apiserver.request.api_call import ApiCall, unknown_format
from ullage.sim.apiserver.request.field_errors import wrong
from ullage.sim.apiserver.request.status_errors import (
    LOCK_MESSAGE,
    StatusError,
    StatusSubject,
    bad_patch,
    conflict,
    invalid,
    no_such_resource,
    not_found,
)
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode
from ullage.sim.apiserver.storage.store import StoredObject
from ullage.sim.apiserver.verbs.patch import JSON_PATCH, MERGE
from ullage.sim.apiserver.verbs.update import update_object


def read_scale(call: ApiCall, world: ServerContext) -> Response:
    return Response(200, encode(_scale_of(_stored(call, world), _paths(call))))


def write_scale(call: ApiCall, world: ServerContext) -> Response:
    """PUT or PATCH: only the replicas are written."""
    dry_run = call.dry_run("UpdateOptions")
    stored, paths = _stored(call, world), _paths(call)
    scale = _sent(call, _scale_of(stored, paths))
    said = (scale.get("metadata") or {}).get("resourceVersion")
    if said and said != stored.obj["metadata"]["resourceVersion"]:
        raise conflict(call.kind.about(call.target.name), LOCK_MESSAGE)
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        raise _negative(call, paths, replicas)
    obj = stored.fresh()
    _set(obj, paths.replicas, replicas)
    whole = ApiCall(RequestTarget(call.kind, call.target.namespace, call.target.name), call.request, call.user)
    after = update_object(whole, world, stored, obj, dry_run=dry_run)
    return Response(200, encode(_scale_of(after, paths)))


def _negative(call: ApiCall, paths: ScalePaths, replicas: Any) -> StatusError:
    if call.kind.custom:
        problem = wrong(paths.replicas, replicas, "should be a non-negative integer")
        return invalid(call.kind.about_kind(call.target.name), [problem])
    problem = wrong("spec.replicas", replicas, "must be greater than or equal to 0")
    return invalid(StatusSubject("Scale", "autoscaling", call.target.name), [problem])


def _sent(call: ApiCall, scale: JsonObject) -> JsonObject:
    if call.request.method == "PUT":
        return call.plain_body("Scale")
    if call.request.content_type == MERGE:
        merged: JsonObject = merge(scale, call.plain_body("Scale"))
        return merged
    if call.request.content_type != JSON_PATCH:
        raise unknown_format()
    try:
        changed: JsonObject = apply_operations(scale, call.json())
    except PatchFailed as failed:
        raise bad_patch() from failed
    return changed


def _stored(call: ApiCall, world: ServerContext) -> StoredObject:
    stored = world.store.shelf(call.kind.place).get(call.key)
    if stored is None:
        raise not_found(call.kind.about(call.target.name))
    return stored


def _paths(call: ApiCall) -> ScalePaths:
    if call.kind.scale is None:
        refusal: StatusError = no_such_resource()
        raise refusal
    return call.kind.scale


def _scale_of(stored: StoredObject, paths: ScalePaths) -> JsonObject:
    metadata = stored.obj["metadata"]
    members = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: JsonObject = {"replicas": _get(stored.obj, paths.status_replicas) or 0}
    selector = (
        _get(stored.obj, paths.selector) if paths.selector else _selector_text(stored.obj["spec"].get("selector"))
    )
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {member: metadata[member] for member in members if member in metadata},
        "spec": {"replicas": _get(stored.obj, paths.replicas) or 0},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    if not isinstance(selector, dict):
        return ""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    parts += [_expression_text(expression) for expression in selector.get("matchExpressions") or []]
    return ",".join(parts)


def _expression_text(expression: JsonObject) -> str:
    key, operator = expression.get("key", ""), expression.get("operator")
    listed = ",".join(sorted(expression.get("values") or []))
    match operator:
        case "Exists":
            return str(key)
        case "DoesNotExist":
            return f"!{key}"
        case "NotIn":
            return f"{key} notin ({listed})"
        case _:
            return f"{key} in ({listed})"


def _get(obj: Any, path: str) -> Any:
    for part in path.lstrip(".").split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _set(obj: JsonObject, path: str, value: int) -> None:
    *parents, last = path.lstrip(".").split(".")
    for part in parents:
        obj = obj.setdefault(part, {})
    obj[last] = value
