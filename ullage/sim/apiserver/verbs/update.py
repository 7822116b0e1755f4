"""PUT and PATCH: from the stored object and what was sent to what is stored next."""

import re
from typing import Any

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.kinds.metadata import check_metadata, check_metadata_update, tidy
from ullage.sim.apiserver.merge.field_sets import leaves
from ullage.sim.apiserver.merge.managed_fields import (
    UPDATE,
    FieldManager,
    ManagedFields,
    after_update,
    ownership_of,
    read_ownership,
)
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.field_errors import wrong
from ullage.sim.apiserver.request.status_errors import (
    LOCK_MESSAGE,
    StatusSubject,
    bad_request,
    conflict,
    invalid,
    not_found,
    unexpected,
)
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject, copied
from ullage.sim.apiserver.storage.store import StoredObject
from ullage.sim.apiserver.storage.views import encoded
from ullage.sim.apiserver.verbs.create import create_object, sent_object, typed


def replace(call: ApiCall, world: ServerContext) -> Response:
    """PUT of an object or one of its parts."""
    dry_run = call.dry_run("UpdateOptions")
    obj = sent_object(call)
    check_url_name(call, obj["metadata"])
    old = world.store.shelf(call.kind.place).get(call.key)
    if old is None:
        if not call.kind.rules.create_on_update or call.target.subresource:
            raise not_found(call.kind.about(call.target.name))
        if uid := obj["metadata"].get("uid"):
            raise conflict(call.kind.about(call.target.name), precondition_failed(call, "UID", uid, ""))
        return Response(201, encoded(call.kind, create_object(call, obj, world, dry_run=dry_run)))
    stored = update_object(call, world, old, obj, dry_run=dry_run)
    return Response(200, encoded(call.kind, stored))


def check_url_name(call: ApiCall, metadata: JsonObject) -> None:
    name = metadata.get("name") or ""
    if not name:
        url = call.target.name
        raise bad_request(f"the name of the object ({url} based on URL) was undeterminable: name must be provided")
    if name != call.target.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.target.name})")


def update_object(
    call: ApiCall, world: ServerContext, old: StoredObject, obj: JsonObject, *, dry_run: bool, owners: object = None
) -> StoredObject:
    """Validate and store a new state. Returns the stored object, or its last state if the update removes it."""
    kind = call.kind
    obj = typed(call, obj)
    check_revision(call, obj["metadata"], old)
    whole = call.target.subresource != "status"
    if whole:
        kind.rules.default(obj)
    obj = merge_part(call, obj, old)
    if kind.custom and not whole:
        kind.rules.default(obj)
    sent = obj["metadata"].get("managedFields")
    _keep_identity(obj["metadata"], old.obj["metadata"])
    _count_generation(call, obj, old.obj)
    obj["metadata"] = tidy(obj["metadata"])
    obj = world.gate.changed(call.arrival(obj, old.obj))
    _validate(call, obj, old.obj)
    world.gate.check(call.arrival(obj, old.obj))
    if owners is None:
        owners = _owners_after(call, world, old, obj, sent)
    return store_update(call, world, old, obj, dry_run=dry_run, owners=owners)


def _owners_after(call: ApiCall, world: ServerContext, old: StoredObject, obj: JsonObject, sent: Any) -> object:
    """Owners after an update: recorded on objects that were applied, or on all. Owners the writer sends are taken."""
    kind, owners = call.kind, old.owners
    if not isinstance(owners, ManagedFields):
        if not world.accounts_from_birth:
            return owners
        owners = ownership_of(owners, old.obj, kind.rules.schema, kind.api_version)
    if isinstance(sent, list) and sent != old.obj["metadata"].get("managedFields"):
        owners = read_ownership(sent)
    part = "scale" if call.request.path.endswith("/scale") else call.target.subresource
    manager = FieldManager(call.manager, UPDATE, part, kind.api_version)
    before, after = leaves(old.obj, kind.rules.schema), leaves(obj, kind.rules.schema)
    return after_update(owners, manager, before, after, world.timestamp())


def store_update(
    call: ApiCall, world: ServerContext, old: StoredObject, obj: JsonObject, *, dry_run: bool, owners: object = None
) -> StoredObject:
    """Write a validated state: no write if nothing changed; a removal if nothing holds the object any more."""
    kind, metadata = call.kind, obj["metadata"]
    metadata["resourceVersion"] = old.obj["metadata"]["resourceVersion"]
    if isinstance(owners, ManagedFields):
        metadata["managedFields"] = owners.show()
    if _vanishes(metadata) and kind.rules.may_vanish(obj):
        if not dry_run:
            world.store.drop(kind.place, old.key)
        return StoredObject(old.key, old.revision, obj)
    if obj == old.obj:
        return old
    if dry_run:
        return StoredObject(old.key, old.revision, obj)
    return world.store.put(kind.place, old.key, obj, owners)


def check_revision(call: ApiCall, metadata: JsonObject, old: StoredObject) -> None:
    """Check the uid and resourceVersion that were sent, as preconditions. Raises StatusError."""
    kind, name, current = call.kind, call.target.name, old.obj["metadata"]
    if call.request.method == "PUT" and metadata.get("uid") and metadata["uid"] != current["uid"]:
        raise conflict(kind.about(name), precondition_failed(call, "UID", metadata["uid"], current["uid"]))
    said = metadata.get("resourceVersion") or ""
    if said and re.fullmatch(r"\d+", said) is None:
        raise unexpected(f'strconv.ParseUint: parsing "{said}": invalid syntax')
    if said in ("", "0"):
        if kind.rules.unconditional_update:
            return
        problem = wrong("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(StatusSubject(kind.plural, kind.group, name), [problem])
    if said != current["resourceVersion"]:
        raise conflict(kind.about(name), LOCK_MESSAGE)


def precondition_failed(call: ApiCall, what: str, said: str, found: str) -> str:
    """The storage layer's own words, which the server passes on."""
    place = f"{call.kind.group}/{call.kind.plural}" if call.kind.custom else call.kind.plural
    key = f"/registry/{place}/{call.key}"
    detail = f"Precondition failed: {what} in precondition: {said}, {what} in object meta: {found}"
    return f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {detail}"


def merge_part(call: ApiCall, obj: JsonObject, old: StoredObject) -> JsonObject:
    """Stored object with the changes a write to this part may make."""
    rules = call.kind.rules
    if call.target.subresource != "status":
        if "status" in call.kind.subresources:
            obj.pop("status", None)
            if "status" in old.obj:
                obj["status"] = copied({"status": old.obj["status"]})["status"]
        rules.prepare_update(obj, old.obj)
        return obj
    merged = old.fresh()
    merged.pop("status", None)
    if "status" in obj:
        merged["status"] = obj["status"]
    before = merged["metadata"]
    merged["metadata"] = dict(obj["metadata"])
    for member in rules.status_resets:
        merged["metadata"].pop(member, None)
        if member in before:
            merged["metadata"][member] = before[member]
    rules.prepare_status(merged, old.obj)
    return merged


def _keep_identity(metadata: JsonObject, old: JsonObject) -> None:
    """No update changes creation or deletion times; validation refuses a writer that sets a deletion time."""
    for member in ("creationTimestamp", "generation", "managedFields"):
        metadata.pop(member, None)
        if member in old:
            metadata[member] = old[member]
    for member in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if member in old:
            metadata[member] = old[member]
    metadata["uid"] = metadata.get("uid") or old["uid"]


def _count_generation(call: ApiCall, obj: JsonObject, old: JsonObject) -> None:
    rules = call.kind.rules
    if not rules.counts_generations or call.target.subresource == "status":
        return
    if rules.desired(obj) != rules.desired(old):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _validate(call: ApiCall, obj: JsonObject, old: JsonObject) -> None:
    rules, metadata = call.kind.rules, obj["metadata"]
    errors = check_metadata_update(metadata, old["metadata"])
    if metadata != old["metadata"]:
        errors = check_metadata(metadata, _any_name) + errors
    if call.target.subresource == "status":
        errors += rules.validate_status(obj, old)
    else:
        errors += rules.validate_update(obj, old)
    if errors:
        raise invalid(call.kind.about_kind(call.target.name), errors)


def _any_name(_name: str) -> tuple[str, ...]:
    """Accept any name: it was validated when the object was created."""
    return ()


def _vanishes(metadata: JsonObject) -> bool:
    """True if the object is being deleted, with no finalizers and no grace left."""
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")
