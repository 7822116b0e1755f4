"""PATCH with an apply configuration: these fields are mine and have these values; what I no longer name goes."""

from typing import Any

import msgspec
import yaml

from ullage.kube.transport import Response
from ullage.sim.apiserver.call import Call
from ullage.sim.apiserver.creation import create_object, place_in_namespace
from ullage.sim.apiserver.fields import required
from ullage.sim.apiserver.fieldsets import Leaves, Path, dotted, leaves, merged, pruned
from ullage.sim.apiserver.ownership import APPLY, Manager, Ownership, ownership_of
from ullage.sim.apiserver.refusal import About, Refusal, bad_request, invalid, not_found
from ullage.sim.apiserver.schema_types import MergeSchema
from ullage.sim.apiserver.store import Stored
from ullage.sim.apiserver.strictness import judge_applied
from ullage.sim.apiserver.updating import update_object
from ullage.sim.apiserver.views import encoded, inward
from ullage.sim.apiserver.wire import JsonObject, decode, without_nulls
from ullage.sim.apiserver.world import World

_in_order = msgspec.json.Encoder(order="deterministic")
_STATUS: Path = ("f:status",)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply(call: Call, world: World) -> Response:
    """Raises Refusal with 409 where fields are somebody else's and it is not forced."""
    dry_run = call.dry_run("PatchOptions")
    if not call.query.get("fieldManager"):
        problem = required("fieldManager", "is required for apply patch")
        raise invalid(About("PatchOptions", "meta.k8s.io"), [problem])
    config = _configuration(call)
    manager = Manager(call.query["fieldManager"], APPLY, call.target.subresource, call.kind.api_version)
    mine = _owned_part(call, leaves(config, call.kind.rules.schema))
    old = world.store.shelf(call.kind.place).get(call.key)
    if old is None:
        return _create(call, world, config, Ownership().with_claim(manager, mine, world.timestamp()), dry_run)
    said = config["metadata"].get("resourceVersion")
    obj, owners = _apply_over(call, world, old, config, manager)
    if said:
        obj["metadata"]["resourceVersion"] = said
    return Response(200, encoded(call.kind, update_object(call, world, old, obj, dry_run=dry_run, owners=owners)))


def _create(call: Call, world: World, config: JsonObject, owners: Ownership, dry_run: bool) -> Response:
    if call.target.subresource:
        raise not_found(call.kind.about(call.target.name))
    stored = create_object(call, config, world, dry_run=dry_run, owners=owners)
    return Response(201, encoded(call.kind, stored))


def _configuration(call: Call) -> JsonObject:
    config = _parsed(call)
    version, kind = config.get("apiVersion") or "", config.get("kind") or ""
    if (version, kind) != (call.kind.api_version, call.kind.kind):
        raise bad_request(f"invalid object type: {version or '/'}, Kind={kind}")
    judge_applied(call, config)
    metadata = config["metadata"] = dict(config.get("metadata") or {})
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    name, url = metadata.setdefault("name", call.target.name), call.target.name
    if name != url:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({url})")
    config = inward(call.kind, without_nulls(config))
    place_in_namespace(call, config["metadata"])
    return config


def _parsed(call: Call) -> JsonObject:
    body = call.request.body or b""
    try:
        found: Any = decode(body)
    except ValueError:
        try:
            found = yaml.safe_load(body)
        except yaml.YAMLError as error:
            raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("metadata") or {}, dict):
        raise bad_request("error decoding YAML: the configuration is not an object")
    return found


def _owned_part(call: Call, found: Leaves) -> Leaves:
    """Of all that was named, what this part of the object can set."""
    if call.target.subresource == "status":
        return {path: value for path, value in found.items() if path[:1] == _STATUS}
    if "status" in call.kind.subresources:
        return {path: value for path, value in found.items() if path[:1] != _STATUS}
    return found


def _apply_over(
    call: Call, world: World, old: Stored, config: JsonObject, manager: Manager
) -> tuple[JsonObject, Ownership]:
    schema, now = call.kind.rules.schema, world.timestamp()
    owners = ownership_of(old.owners, old.obj, schema, call.kind.api_version)
    mine = _owned_part(call, leaves(config, schema))
    live = leaves(old.obj, schema)
    contested = _contested(owners, manager, mine, live)
    if contested:
        if not call.flag("force"):
            _check_left(contested, _inherited(old.obj, manager, live, schema))
        lost = frozenset(path for paths in contested.values() for path in paths)
        owners = owners.without(lost, now, but=manager)
    obj = merged(old.fresh(), _without_unset(config, call), schema)
    kept = owners.others(manager) | frozenset(mine)
    gone = owners.paths(manager) - kept
    obj = _pruned(obj, schema, gone, kept)
    _remember(obj, config, manager)
    return obj, owners.with_claim(manager, mine, now)


def _remember(obj: JsonObject, config: JsonObject, manager: Manager) -> None:
    """What kubectl once noted as applied on the client's side is kept true, for clients that go back to that."""
    annotations = obj["metadata"].get("annotations") or {}
    if manager.name == "kubectl" and _LAST_APPLIED in annotations:
        annotations[_LAST_APPLIED] = _in_order.encode(config).decode() + "\n"


def _check_left(contested: dict[Manager, list[Path]], allowed: frozenset[Path]) -> None:
    """Raises Refusal unless everything contested may be taken."""
    left = {manager: [path for path in paths if path not in allowed] for manager, paths in contested.items()}
    if any(left.values()):
        raise _conflict({manager: paths for manager, paths in left.items() if paths})


def _inherited(obj: JsonObject, manager: Manager, live: Leaves, schema: MergeSchema) -> frozenset[Path]:
    """What kubectl may take without force: fields it last applied on the client's side, which are as it left them."""
    said = (obj["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    if manager.name != "kubectl" or not said:
        return frozenset()
    try:
        last = leaves(decode(said.encode()), schema)
    except (ValueError, AttributeError):
        return frozenset()
    return frozenset(path for path, value in last.items() if path in live and live[path] == value)


def _pruned(obj: JsonObject, schema: MergeSchema, gone: frozenset[Path], kept: frozenset[Path]) -> JsonObject:
    result = pruned(obj, schema, gone, kept) if gone else obj
    result.setdefault("metadata", {})
    return result


def _without_unset(config: JsonObject, call: Call) -> JsonObject:
    """A configuration without its conditions, and without what this part cannot set."""
    metadata = {key: value for key, value in config["metadata"].items() if key != "resourceVersion"}
    trimmed = {**config, "metadata": metadata}
    if call.target.subresource != "status" and "status" in call.kind.subresources:
        trimmed.pop("status", None)
    return trimmed


def _contested(owners: Ownership, manager: Manager, mine: Leaves, live: Leaves) -> dict[Manager, list[Path]]:
    """Fields of others that would change."""
    found: dict[Manager, list[Path]] = {}
    for other in sorted(owners.claims):
        if other == manager:
            continue
        paths = [path for path in sorted(mine) if path in owners.claims[other].paths and mine[path] != live.get(path)]
        if paths:
            found[other] = paths
    return found


def _conflict(contested: dict[Manager, list[Path]]) -> Refusal:
    causes: list[JsonObject] = []
    lines: list[str] = []
    for manager, paths in contested.items():
        who = _described(manager)
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": dotted(path)}
            for path in paths
        ]
        lines += [f"conflicts with {who}:", *(f"- {dotted(path)}" for path in paths)]
    message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    return Refusal(409, "Conflict", message, {"causes": causes})


def _described(manager: Manager) -> str:
    text = f'"{manager.name}"'
    if manager.part:
        text += f' with subresource "{manager.part}"'
    return text if manager.operation == APPLY else f"{text} using {manager.version}"
