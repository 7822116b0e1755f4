"""Garbage collection of one object: its owners are gone, being deleted, or orphan it. Pure."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from ullage.kube.client.api import Deletion, Propagation
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.objects.meta import HasMeta, ObjectMeta
from ullage.sim.controllers.ownership import drop_finalizer_write, drop_owners_write, reference_json
from ullage.sim.controllers.writes import DeleteObject, Write, merge_object

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class OwnerObject(Enum):
    """State of the object that an owner reference names."""

    STANDS = "is there"
    GONE = "is gone, or something else has its name"
    WAITS = "is being deleted and waits for its dependents"


def state_of_owner(owner: ObjectMeta | None) -> OwnerObject:
    """State of the object with an owner's uid; None if there is no such object."""
    if owner is None:
        return OwnerObject.GONE
    return OwnerObject.WAITS if waits_for_dependents(owner) else OwnerObject.STANDS


def waits_for_dependents(meta: ObjectMeta) -> bool:
    return meta.deletion_timestamp is not None and FOREGROUND in meta.finalizers


def orphans_dependents(meta: ObjectMeta) -> bool:
    return meta.deletion_timestamp is not None and ORPHAN in meta.finalizers


Dependent = tuple[Resource[Any], HasMeta]


def collect(
    resource: Resource[Any], meta: ObjectMeta, owners: Mapping[str, OwnerObject], dependents: Sequence[Dependent]
) -> tuple[Write, ...]:
    """Keep, disown or delete an object by the state of its owners (by uid). One being deleted waits or orphans."""
    if orphans_dependents(meta):
        return _let_dependents_stay(resource, meta, dependents)
    if waits_for_dependents(meta):
        return () if _blocking(meta, dependents) else (drop_finalizer_write(resource, meta, FOREGROUND),)
    if meta.deletion_timestamp is not None or not meta.owner_references:
        return ()
    states = {owner.uid: owners[owner.uid] for owner in meta.owner_references}
    lost = frozenset(uid for uid, state in states.items() if state is not OwnerObject.STANDS)
    if len(lost) < len(states):
        return (drop_owners_write(resource, meta, lost),) if lost else ()
    if OwnerObject.WAITS in states.values() and dependents:
        writes: tuple[Write, ...] = ()
        if any(waits_for_dependents(each.metadata) for _, each in dependents):
            # Two objects that wait for each other would wait for ever.
            writes = (_unblocked(resource, meta),)
        return (*writes, _delete(resource, meta, Propagation.FOREGROUND, is_conditional=not writes))
    return (_delete(resource, meta, _inherited(meta)),)


def _inherited(meta: ObjectMeta) -> Propagation:
    if ORPHAN in meta.finalizers:
        return Propagation.ORPHAN
    return Propagation.FOREGROUND if FOREGROUND in meta.finalizers else Propagation.BACKGROUND


def _delete(
    resource: Resource[Any], meta: ObjectMeta, propagation: Propagation, *, is_conditional: bool = True
) -> DeleteObject:
    """Delete the object. If conditional, only in the version that was read: its owners may have changed since."""
    version = meta.resource_version if is_conditional else ""
    how = Deletion(uid=meta.uid, resource_version=version, propagation=propagation)
    return DeleteObject(resource, meta.namespace, meta.name, how)


def _blocking(owner: ObjectMeta, dependents: Sequence[Dependent]) -> list[Dependent]:
    """Dependents that must be gone before the owner may go."""
    return [
        (resource, each)
        for resource, each in dependents
        if any(ref.uid == owner.uid and ref.block_owner_deletion for ref in each.metadata.owner_references)
    ]


def _let_dependents_stay(
    resource: Resource[Any], meta: ObjectMeta, dependents: Sequence[Dependent]
) -> tuple[Write, ...]:
    """Remove the owner from every dependent first, then let the owner go."""
    forget = (drop_owners_write(kind, each.metadata, frozenset({meta.uid})) for kind, each in dependents)
    return (*forget, drop_finalizer_write(resource, meta, ORPHAN))


def _unblocked(resource: Resource[Any], meta: ObjectMeta) -> Write:
    references: list[JsonObject] = [
        {**reference_json(owner), "blockOwnerDeletion": False} for owner in meta.owner_references
    ]
    return merge_object(resource, meta, {"metadata": {"ownerReferences": references}})
