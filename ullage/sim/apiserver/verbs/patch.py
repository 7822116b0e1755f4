"""PATCH: which document it starts from, which kind of patch it is, and where the result goes."""

from typing import Any

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.merge import server_side_apply
from ullage.sim.apiserver.merge.json_patches import PatchFailed, apply_operations, merge
from ullage.sim.apiserver.merge.strategic import strategic_merge
from ullage.sim.apiserver.request.api_call import ApiCall, unknown_format
from ullage.sim.apiserver.request.field_errors import forbidden_field, wrong
from ullage.sim.apiserver.request.field_validation import check_patched
from ullage.sim.apiserver.request.status_errors import (
    StatusSubject,
    bad_patch,
    bad_request,
    invalid,
    not_found,
    unexpected,
    unsupported_media,
)
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject, copied, decode, encode, without_nulls
from ullage.sim.apiserver.storage.store import StoredObject
from ullage.sim.apiserver.storage.views import encoded, inward, outward
from ullage.sim.apiserver.verbs.create import place_in_namespace
from ullage.sim.apiserver.verbs.update import check_url_name, update_object

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
APPLY_JSON = "application/apply-patch+json"


def patch(call: ApiCall, world: ServerContext) -> Response:
    content_type = call.request.content_type.partition(";")[0].strip()
    if content_type in (APPLY, APPLY_JSON):
        return server_side_apply.apply(call, world)
    if content_type == STRATEGIC and call.kind.custom:
        raise unsupported_media([JSON_PATCH, MERGE, APPLY])
    if content_type not in (MERGE, JSON_PATCH, STRATEGIC):
        raise unknown_format()
    if call.query.get("force"):
        problem = forbidden_field("force", "may not be specified for non-apply patch")
        raise invalid(StatusSubject("PatchOptions", "meta.k8s.io"), [problem])
    dry_run = call.dry_run("PatchOptions")
    old = world.store.shelf(call.kind.place).get(call.key)
    if old is None:
        raise not_found(call.kind.about(call.target.name))
    stored = update_object(call, world, old, _patched(call, old, content_type), dry_run=dry_run)
    return Response(200, encoded(call.kind, stored))


def _patched(call: ApiCall, old: StoredObject, content_type: str) -> JsonObject:
    document = copied(outward(call.kind, old.obj))
    result = _apply_patch(call, document, content_type)
    if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
        raise bad_patch()
    _check_still_it(call, result)
    obj = inward(call.kind, result)
    place_in_namespace(call, obj["metadata"])
    return obj if call.kind.custom else without_nulls(obj) if b"null" in (call.request.body or b"") else obj


def _check_still_it(call: ApiCall, result: JsonObject) -> None:
    """A patch cannot turn an object into one of another kind or name."""
    kind, version = result.get("kind"), result.get("apiVersion")
    if (kind, version) != (call.kind.kind, call.kind.api_version):
        problem = f'no kind "{kind}" is registered for version "{version}" in scheme'
        raise invalid(StatusSubject("", "", ""), [wrong("patch", encode(result).decode(), problem)])
    check_url_name(call, result["metadata"])


def _apply_patch(call: ApiCall, document: JsonObject, content_type: str) -> Any:
    try:
        said = decode(call.request.body or b"")
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if content_type != JSON_PATCH:
        if not isinstance(said, dict):
            raise bad_request("error decoding patch: the patch is not a JSON object")
        strategic = content_type == STRATEGIC
        merged = _strategic(call, document, said) if strategic else merge(document, said)
        _check(call, merged, said, strategic=strategic)
        return merged
    if not isinstance(said, list):
        message = "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        raise bad_request(f"error decoding patch: {message}")
    try:
        changed = apply_operations(document, said)
    except PatchFailed as failed:
        raise bad_patch() from failed
    _check(call, changed, said, strategic=False)
    return changed


def _check(call: ApiCall, result: Any, said: Any, *, strategic: bool) -> None:
    if isinstance(result, dict):
        check_patched(call, result, said, strategic=strategic)


def _strategic(call: ApiCall, document: JsonObject, said: JsonObject) -> Any:
    try:
        return strategic_merge(document, said, call.kind.rules.schema)
    except PatchFailed as failed:
        raise unexpected(str(failed)) from failed
