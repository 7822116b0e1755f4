"""DELETE of objects and collections: preconditions, grace, finalizers."""

from dataclasses import dataclass, replace
from typing import Any

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.kinds.registry import RequestTarget
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.field_errors import FieldError, unsupported, wrong
from ullage.sim.apiserver.request.status_errors import (
    StatusError,
    StatusSubject,
    bad_request,
    conflict,
    invalid,
    not_found,
)
from ullage.sim.apiserver.storage.context import ServerContext, rfc3339, seconds_of
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode
from ullage.sim.apiserver.storage.store import StoredObject
from ullage.sim.apiserver.storage.views import encoded, list_body
from ullage.sim.apiserver.verbs.get_list import list_page

_POLICIES = ("Foreground", "Background", "Orphan")
_FINALIZER_OF = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Delete options from the body or the query."""

    grace_period: int | None = None
    propagation: str = ""
    uid: str | None = None
    revision: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The object as it is now or was last, and whether it is gone."""

    stored: StoredObject
    gone: bool


def delete(call: ApiCall, world: ServerContext) -> Response:
    options = delete_options(call)
    outcome = delete_object(call, world, options)
    if outcome.gone and not call.kind.rules.returns_deleted:
        return Response(200, encode(_success(call, outcome.stored.obj["metadata"]["uid"])))
    return Response(200, encoded(call.kind, outcome.stored))


def delete_collection(call: ApiCall, world: ServerContext) -> Response:
    """Delete everything a list would show; answers with that list."""
    options = delete_options(call)
    found = list_page(call, world.store)
    for item in found.items:
        metadata = item.obj["metadata"]
        target = RequestTarget(call.kind, metadata.get("namespace", ""), metadata["name"])
        try:
            delete_object(replace(call, target=target), world, options)
        except StatusError as refusal:
            if refusal.code != 404:
                raise
    return Response(200, list_body(call.kind, found.items, found.metadata))


def delete_options(call: ApiCall) -> DeleteOptions:
    """Options from the body if there is one, else from the query. Raises StatusError."""
    if call.request.body:
        said = call.json()
        if not isinstance(said, dict):
            raise bad_request("the object provided is unrecognized (must be of type DeleteOptions)")
    else:
        said = {"gracePeriodSeconds": call.number("gracePeriodSeconds")}
        said["propagationPolicy"] = call.query.get("propagationPolicy")
        said["dryRun"] = [call.query["dryRun"]] if call.query.get("dryRun") else []
        if call.query.get("orphanDependents"):
            said["orphanDependents"] = call.flag("orphanDependents")
    return options_from(said)


def options_from(said: JsonObject) -> DeleteOptions:
    """Raises StatusError if the options make no sense."""
    grace_period, conditions = said.get("gracePeriodSeconds"), said.get("preconditions") or {}
    if not isinstance(grace_period, int | None) or not isinstance(conditions, dict):
        raise bad_request('DeleteOptions in version "v1" cannot be handled as a DeleteOptions: wrong type of a field')
    policy: Any = said.get("propagationPolicy") or ""
    errors: list[FieldError] = []
    if said.get("orphanDependents") is not None:
        if policy:
            why = "orphanDependents and deletionPropagation cannot be both set"
            errors.append(wrong("propagationPolicy", policy, why))
        policy = "Orphan" if said["orphanDependents"] else "Background"
    elif policy and policy not in _POLICIES:
        errors.append(unsupported("propagationPolicy", policy, [*_POLICIES, "nil"]))
    if said.get("dryRun") not in (None, [], ["All"]):
        errors.append(unsupported("dryRun", said["dryRun"], ["All"]))
    if errors:
        raise invalid(StatusSubject("DeleteOptions", "meta.k8s.io"), errors)
    return DeleteOptions(
        grace_period=1 if grace_period is not None and grace_period < 0 else grace_period,
        propagation=policy,
        uid=conditions.get("uid"),
        revision=conditions.get("resourceVersion"),
        dry_run=bool(said.get("dryRun")),
    )


def delete_object(call: ApiCall, world: ServerContext, options: DeleteOptions) -> DeleteResult:
    """Delete now, or mark for deletion where grace or finalizers hold the object. Raises StatusError."""
    kind = call.kind
    stored = world.store.shelf(kind.place).get(call.key)
    if stored is None:
        raise not_found(kind.about(call.target.name))
    kind.rules.check_delete(stored.obj)
    _check_preconditions(call, stored.obj["metadata"], options)
    if (marked := kind.rules.mark_deleted(stored.obj, world)) is not None:
        return _store_mark(call, world, stored, marked, options)
    metadata = stored.obj["metadata"]
    if kind.rules.graceful:
        if metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds"):
            if options.grace_period is None or options.grace_period >= metadata["deletionGracePeriodSeconds"]:
                return DeleteResult(stored, gone=False)
            return _shorten(call, world, stored, options)
        if not metadata.get("deletionTimestamp"):
            return _begin_grace_period(call, world, stored, options)
    return _finish(call, world, stored, options)


def _check_preconditions(call: ApiCall, metadata: JsonObject, options: DeleteOptions) -> None:
    about = call.kind.about_kind(metadata["name"])
    if options.uid is not None and options.uid != metadata["uid"]:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']})"
        raise conflict(about, f"{why}. The object might have been deleted and then recreated")
    current = metadata["resourceVersion"]
    if options.revision is not None and options.revision != current:
        why = f"the ResourceVersion in the precondition ({options.revision}) does not match"
        raise conflict(about, f"{why} the ResourceVersion in record ({current}). The object might have been modified")


def _begin_grace_period(
    call: ApiCall, world: ServerContext, stored: StoredObject, options: DeleteOptions
) -> DeleteResult:
    """First deletion of a graceful object: set its deadline, and leave the rest to the component that runs it."""
    obj = stored.fresh()
    grace_period = call.kind.rules.grace_period(obj, options.grace_period)
    metadata = obj["metadata"]
    metadata["deletionTimestamp"] = rfc3339(world.now() + grace_period)
    metadata["deletionGracePeriodSeconds"] = grace_period
    if metadata.get("generation"):
        metadata["generation"] += 1
    _set_finalizers(call, metadata, options)
    return _mark_then_drop(call, world, obj, options, drop=grace_period == 0 and not metadata.get("finalizers"))


def _shorten(call: ApiCall, world: ServerContext, stored: StoredObject, options: DeleteOptions) -> DeleteResult:
    """Later deletion of a graceful object: the grace period can only become shorter."""
    obj = stored.fresh()
    metadata, grace_period = obj["metadata"], options.grace_period or 0
    begun = seconds_of(metadata["deletionTimestamp"]) - metadata["deletionGracePeriodSeconds"]
    if begun + grace_period < world.now():
        metadata["deletionTimestamp"] = rfc3339(world.now())
        grace_period = 1 if grace_period else 0
    else:
        metadata["deletionTimestamp"] = rfc3339(begun + grace_period)
    metadata["deletionGracePeriodSeconds"] = grace_period
    return _mark_then_drop(call, world, obj, options, drop=grace_period == 0 and not metadata.get("finalizers"))


def _mark_then_drop(
    call: ApiCall, world: ServerContext, obj: JsonObject, options: DeleteOptions, *, drop: bool
) -> DeleteResult:
    """Store the mark, then remove: watchers see the mark before the removal, as with the real server."""
    key = call.key
    if options.dry_run:
        return DeleteResult(StoredObject(key, 0, obj), gone=drop)
    owners = _owners(call, world)
    stored = world.store.put(call.kind.place, key, obj, owners)
    return DeleteResult(world.store.drop(call.kind.place, key), gone=True) if drop else DeleteResult(stored, gone=False)


def _finish(call: ApiCall, world: ServerContext, stored: StoredObject, options: DeleteOptions) -> DeleteResult:
    """Remove an object without grace, unless finalizers hold it."""
    obj = stored.fresh()
    metadata = obj["metadata"]
    _set_finalizers(call, metadata, options)
    if metadata.get("finalizers"):
        if not metadata.get("deletionTimestamp"):
            if metadata.get("generation"):
                metadata["generation"] += 1
            metadata["deletionTimestamp"] = world.timestamp()
        metadata["deletionGracePeriodSeconds"] = 0
        return _store_mark(call, world, stored, obj, options)
    if options.dry_run:
        return DeleteResult(stored, gone=True)
    return DeleteResult(world.store.drop(call.kind.place, call.key), gone=True)


def _store_mark(
    call: ApiCall, world: ServerContext, stored: StoredObject, obj: JsonObject, options: DeleteOptions
) -> DeleteResult:
    if obj == stored.obj:
        return DeleteResult(stored, gone=False)
    if options.dry_run:
        return DeleteResult(StoredObject(call.key, 0, obj), gone=False)
    return DeleteResult(world.store.put(call.kind.place, call.key, obj, stored.owners), gone=False)


def _set_finalizers(call: ApiCall, metadata: JsonObject, options: DeleteOptions) -> None:
    """Set the finalizers by which the propagation policy makes the garbage collector act first."""
    if not call.kind.rules.collected:
        return
    held = metadata.get("finalizers") or []
    already = any(name in _FINALIZER_OF.values() for name in held)
    propagation = options.propagation or ("" if already else call.kind.rules.default_propagation)
    if propagation:
        held = [name for name in held if name not in _FINALIZER_OF.values()]
        if wanted := _FINALIZER_OF.get(propagation):
            held.append(wanted)
    metadata.pop("finalizers", None)
    if held:
        metadata["finalizers"] = held


def _owners(call: ApiCall, world: ServerContext) -> object:
    stored = world.store.shelf(call.kind.place).get(call.key)
    return stored.owners if stored else None


def _success(call: ApiCall, uid: str) -> JsonObject:
    details = {**call.kind.about(call.target.name).details(), "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
