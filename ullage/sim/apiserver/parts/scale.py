"""GET, PUT and PATCH of `scale`: the replicas of anything that has them."""

from typing import Any

from ullage.kube.transport import Response
from ullage.sim.apiserver.call import Call, unknown_format
from ullage.sim.apiserver.fields import wrong
from ullage.sim.apiserver.kinds import ScalePaths
from ullage.sim.apiserver.patches import JSON_PATCH, MERGE
from ullage.sim.apiserver.patching import PatchFailed, apply_operations, merge
from ullage.sim.apiserver.refusal import (
    LOCK_MESSAGE,
    About,
    Refusal,
    bad_patch,
    conflict,
    invalid,
    no_such_resource,
    not_found,
)
from ullage.sim.apiserver.registry import Target
from ullage.sim.apiserver.store import Stored
from ullage.sim.apiserver.updating import update_object
from ullage.sim.apiserver.wire import JsonObject, encode
from ullage.sim.apiserver.world import World


def read_scale(call: Call, world: World) -> Response:
    return Response(200, encode(_scale_of(_stored(call, world), _paths(call))))


def write_scale(call: Call, world: World) -> Response:
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
    whole = Call(Target(call.kind, call.target.namespace, call.target.name), call.request, call.user)
    after = update_object(whole, world, stored, obj, dry_run=dry_run)
    return Response(200, encode(_scale_of(after, paths)))


def _negative(call: Call, paths: ScalePaths, replicas: Any) -> Refusal:
    if call.kind.custom:
        problem = wrong(paths.replicas, replicas, "should be a non-negative integer")
        return invalid(call.kind.about_kind(call.target.name), [problem])
    problem = wrong("spec.replicas", replicas, "must be greater than or equal to 0")
    return invalid(About("Scale", "autoscaling", call.target.name), [problem])


def _sent(call: Call, scale: JsonObject) -> JsonObject:
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


def _stored(call: Call, world: World) -> Stored:
    stored = world.store.shelf(call.kind.place).get(call.key)
    if stored is None:
        raise not_found(call.kind.about(call.target.name))
    return stored


def _paths(call: Call) -> ScalePaths:
    if call.kind.scale is None:
        refusal: Refusal = no_such_resource()
        raise refusal
    return call.kind.scale


def _scale_of(stored: Stored, paths: ScalePaths) -> JsonObject:
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
