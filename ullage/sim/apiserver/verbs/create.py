"""POST: from what was sent to what is stored."""

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.kinds.kind import ServedKind
from ullage.sim.apiserver.kinds.metadata import check_metadata, generated_name, new_uid, tidy
from ullage.sim.apiserver.merge.managed_fields import ManagedFields, ownership_of
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.field_errors import wrong
from ullage.sim.apiserver.request.field_validation import check_sent
from ullage.sim.apiserver.request.status_errors import (
    StatusSubject,
    already_exists,
    bad_request,
    forbidden,
    invalid,
    name_not_generated,
    not_found,
    unexpected,
)
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode, without_nulls
from ullage.sim.apiserver.storage.store import StoredObject
from ullage.sim.apiserver.storage.views import encoded, inward
from ullage.sim.apiserver.types.shapes import WrongType

_NAME_TRIES = 8
_KEPT_ONLY = ("limitranges", "resourcequotas")
"""Kinds the real server enforces and this one only stores."""


def create(call: ApiCall, world: ServerContext) -> Response:
    dry_run = call.dry_run("CreateOptions")
    if call.kind.custom:
        _check_definition_stays(call, world)
    obj = sent_object(call)
    if obj["metadata"].get("resourceVersion"):
        raise unexpected("resourceVersion should not be set on objects to be created")
    if call.kind.id in _KEPT_ONLY:
        call.warnings.append(f"{call.kind.kind} is kept, but has no effect in this simulated cluster")
    stored = create_object(call, obj, world, dry_run=dry_run)
    return Response(201, encoded(call.kind, stored))


def _check_definition_stays(call: ApiCall, world: ServerContext) -> None:
    definition = world.find("customresourcedefinitions.apiextensions.k8s.io", call.kind.id)
    if definition is not None and definition["metadata"].get("deletionTimestamp"):
        said = call.body()["metadata"].get("name", "")
        raise forbidden(call.kind.about(said), "create not allowed while custom resource definition is terminating")


def sent_object(call: ApiCall) -> JsonObject:
    """The request's body in the stored version, with the namespace of the request."""
    obj = call.body()
    if not call.kind.custom and b"null" in (call.request.body or b""):
        obj = without_nulls(obj)
    check_sent(call, obj)
    obj = inward(call.kind, obj)
    place_in_namespace(call, obj["metadata"])
    return obj


def place_in_namespace(call: ApiCall, metadata: JsonObject) -> None:
    """Raises StatusError if the object names another namespace than the request."""
    said, asked = metadata.get("namespace") or "", call.target.namespace
    if not call.kind.namespaced:
        metadata.pop("namespace", None)
        return
    if said and said != asked:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = asked


def create_object(
    call: ApiCall, obj: JsonObject, world: ServerContext, *, dry_run: bool, owners: object = None
) -> StoredObject:
    """Complete, validate and store a new object. Raises StatusError."""
    obj = typed(call, obj)
    kind, metadata = call.kind, obj["metadata"]
    if metadata.get("generateName") and not metadata.get("name"):
        return _create_with_new_name(call, obj, world, dry_run=dry_run)
    complete(kind, obj, world)
    obj = world.gate.changed(call.arrival(obj))
    metadata = obj["metadata"]
    errors = check_metadata(metadata, kind.rules.check_name) + kind.rules.validate(obj)
    if errors:
        raise invalid(kind.about_kind(metadata.get("name") or ""), errors)
    key = kind.key(metadata.get("namespace", ""), metadata["name"])
    if (taken := world.store.shelf(kind.place).get(key)) is not None:
        raise already_exists(kind.about(metadata["name"]), going=bool(taken.obj["metadata"].get("deletionTimestamp")))
    world.gate.check(call.arrival(obj))
    if world.accounts_from_birth and owners is None:
        owners = ownership_of(call.manager, obj, kind.rules.schema, kind.api_version)
    if isinstance(owners, ManagedFields):
        metadata["managedFields"] = owners.show()
    owners = owners or call.manager
    if dry_run:
        return StoredObject(key, 0, obj, owners)
    return world.store.put(kind.place, key, obj, owners)


def _create_with_new_name(call: ApiCall, obj: JsonObject, world: ServerContext, *, dry_run: bool) -> StoredObject:
    base, namespace = obj["metadata"]["generateName"], obj["metadata"].get("namespace", "")
    shelf = world.store.shelf(call.kind.place)
    for _ in range(_NAME_TRIES):
        obj["metadata"]["name"] = generated_name(base, world.random)
        if shelf.get(call.kind.key(namespace, obj["metadata"]["name"])) is None:
            return create_object(call, obj, world, dry_run=dry_run)
    raise name_not_generated(call.kind.about(obj["metadata"]["name"]))


def typed(call: ApiCall, obj: JsonObject) -> JsonObject:
    """The object as a typed decoder reads it. Raises StatusError if a field has a JSON type it cannot have."""
    kind = call.kind
    part = ("metadata", "status") if call.target.subresource == "status" else ()
    try:
        return kind.rules.shape.typed(obj, kind.kind, part)
    except WrongType as mismatch:
        if call.request.method == "PATCH":
            shown = encode(obj).decode()
            raise invalid(StatusSubject("", "", ""), [wrong("patch", shown, str(mismatch))]) from mismatch
        message = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {mismatch}'
        raise bad_request(message) from mismatch


def complete(kind: ServedKind, obj: JsonObject, world: ServerContext) -> None:
    """Fill in what the server decides: uid, creation time, defaults, admission."""
    metadata = obj["metadata"]
    kind.rules.default(obj)
    if kind.namespaced:
        admit_to_namespace(kind, metadata, world)
    for member in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion", "managedFields"):
        metadata.pop(member, None)
    metadata["uid"] = new_uid(world.random)
    metadata["creationTimestamp"] = world.timestamp()
    kind.rules.admit(obj, world)
    if "status" in kind.subresources and not kind.rules.keeps_status:
        obj.pop("status", None)
    kind.rules.prepare_create(obj, world)
    if kind.rules.counts_generations:
        metadata["generation"] = 1
    obj["metadata"] = tidy(metadata)


def admit_to_namespace(kind: ServedKind, metadata: JsonObject, world: ServerContext) -> None:
    """Admit only into a namespace that exists and is not being deleted."""
    name = metadata["namespace"]
    namespace = world.find("namespaces", name)
    if namespace is None:
        raise not_found(StatusSubject("namespaces", "", name))
    if namespace["metadata"].get("deletionTimestamp"):
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        why = f"unable to create new content in namespace {name} because it is being terminated"
        raise forbidden(kind.about(metadata.get("name", "")), why, [cause])
