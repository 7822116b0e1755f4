"""Server-side apply: the manager owns the fields it names with their values; fields it no longer names are removed."""

from typing import Any

import msgspec
import yaml

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.merge.field_sets import Leaves, Path, dotted, leaves, merged, pruned
from ullage.sim.apiserver.merge.managed_fields import APPLY, FieldManager, ManagedFields, ownership_of
from ullage.sim.apiserver.merge.merge_schema import MergeSchema
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.field_errors import required
from ullage.sim.apiserver.request.field_validation import check_applied
from ullage.sim.apiserver.request.status_errors import StatusError, StatusSubject, bad_request, invalid, not_found
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject, decode, without_nulls
from ullage.sim.apiserver.storage.store import StoredObject
from ullage.sim.apiserver.storage.views import encoded, inward
from ullage.sim.apiserver.verbs.create import create_object, place_in_namespace
from ullage.sim.apiserver.verbs.update import update_object

_in_order = msgspec.json.Encoder(order="deterministic")
_STATUS: Path = ("f:status",)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply(call: ApiCall, world: ServerContext) -> Response:
    """Raises StatusError with 409 if fields belong to another manager and the apply is not forced."""
    dry_run = call.dry_run("PatchOptions")
    if not call.query.get("fieldManager"):
        problem = required("fieldManager", "is required for apply patch")
        raise invalid(StatusSubject("PatchOptions", "meta.k8s.io"), [problem])
    config = _configuration(call)
    manager = FieldManager(call.query["fieldManager"], APPLY, call.target.subresource, call.kind.api_version)
    mine = _owned_part(call, leaves(config, call.kind.rules.schema))
    old = world.store.shelf(call.kind.place).get(call.key)
    if old is None:
        return _create(call, world, config, ManagedFields().with_claim(manager, mine, world.timestamp()), dry_run)
    said = config["metadata"].get("resourceVersion")
    obj, owners = _apply_over(call, world, old, config, manager)
    if said:
        obj["metadata"]["resourceVersion"] = said
    return Response(200, encoded(call.kind, update_object(call, world, old, obj, dry_run=dry_run, owners=owners)))


def _create(call: ApiCall, world: ServerContext, config: JsonObject, owners: ManagedFields, dry_run: bool) -> Response:
    if call.target.subresource:
        raise not_found(call.kind.about(call.target.name))
    stored = create_object(call, config, world, dry_run=dry_run, owners=owners)
    return Response(201, encoded(call.kind, stored))


def _configuration(call: ApiCall) -> JsonObject:
    config = _parsed(call)
    version, kind = config.get("apiVersion") or "", config.get("kind") or ""
    if (version, kind) != (call.kind.api_version, call.kind.kind):
        raise bad_request(f"invalid object type: {version or '/'}, Kind={kind}")
    check_applied(call, config)
    metadata = config["metadata"] = dict(config.get("metadata") or {})
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    name, url = metadata.setdefault("name", call.target.name), call.target.name
    if name != url:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({url})")
    config = inward(call.kind, without_nulls(config))
    place_in_namespace(call, config["metadata"])
    return config


def _parsed(call: ApiCall) -> JsonObject:
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


def _owned_part(call: ApiCall, found: Leaves) -> Leaves:
    """Named fields that this subresource can set."""
    if call.target.subresource == "status":
        return {path: value for path, value in found.items() if path[:1] == _STATUS}
    if "status" in call.kind.subresources:
        return {path: value for path, value in found.items() if path[:1] != _STATUS}
    return found


def _apply_over(
    call: ApiCall, world: ServerContext, old: StoredObject, config: JsonObject, manager: FieldManager
) -> tuple[JsonObject, ManagedFields]:
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


def _remember(obj: JsonObject, config: JsonObject, manager: FieldManager) -> None:
    """Keep kubectl's last-applied annotation true, for clients that go back to client-side apply."""
    annotations = obj["metadata"].get("annotations") or {}
    if manager.name == "kubectl" and _LAST_APPLIED in annotations:
        annotations[_LAST_APPLIED] = _in_order.encode(config).decode() + "\n"


def _check_left(contested: dict[FieldManager, list[Path]], allowed: frozenset[Path]) -> None:
    """Raises StatusError unless every contested field may be taken."""
    left = {manager: [path for path in paths if path not in allowed] for manager, paths in contested.items()}
    if any(left.values()):
        raise _conflict({manager: paths for manager, paths in left.items() if paths})


def _inherited(obj: JsonObject, manager: FieldManager, live: Leaves, schema: MergeSchema) -> frozenset[Path]:
    """Fields kubectl may take without force: last applied by client-side apply and unchanged since."""
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


def _without_unset(config: JsonObject, call: ApiCall) -> JsonObject:
    """Configuration without its preconditions, and without fields this subresource cannot set."""
    metadata = {key: value for key, value in config["metadata"].items() if key != "resourceVersion"}
    trimmed = {**config, "metadata": metadata}
    if call.target.subresource != "status" and "status" in call.kind.subresources:
        trimmed.pop("status", None)
    return trimmed


def _contested(
    owners: ManagedFields, manager: FieldManager, mine: Leaves, live: Leaves
) -> dict[FieldManager, list[Path]]:
    """Fields of other managers that would change."""
    found: dict[FieldManager, list[Path]] = {}
    for other in sorted(owners.claims):
        if other == manager:
            continue
        theirs = owners.claims[other].paths
        if paths := [path for path in mine if path in theirs and mine[path] != live.get(path)]:
            found[other] = sorted(paths)
    return found


def _conflict(contested: dict[FieldManager, list[Path]]) -> StatusError:
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
    return StatusError(409, "Conflict", message, {"causes": causes})


def _described(manager: FieldManager) -> str:
    text = f'"{manager.name}"'
    if manager.part:
        text += f' with subresource "{manager.part}"'
    return text if manager.operation == APPLY else f"{text} using {manager.version}"
