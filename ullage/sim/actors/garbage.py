"""What becomes of an object when its owners are gone, going, or want it to stay behind. Pure."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from ullage.kube.api import Deletion, Propagation
from ullage.kube.objects.meta import HasMeta, ObjectMeta
from ullage.kube.resource import JsonObject, Resource
from ullage.sim.actors.ownership import drop_finalizer_write, drop_owners_write, reference_json
from ullage.sim.actors.writes import Delete, Write, merge_object

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Owner(Enum):
    """What an owner reference points at."""

    STANDS = "is there"
    GONE = "is gone, or something else has its name"
    WAITS = "is being deleted and waits for its dependents"


def state_of_owner(owner: ObjectMeta | None) -> Owner:
    """Of the object under an owner's uid, or None if there is none."""
    if owner is None:
        return Owner.GONE
    return Owner.WAITS if waits_for_dependents(owner) else Owner.STANDS


def waits_for_dependents(meta: ObjectMeta) -> bool:
    return meta.deletion_timestamp is not None and FOREGROUND in meta.finalizers


def orphans_dependents(meta: ObjectMeta) -> bool:
    return meta.deletion_timestamp is not None and ORPHAN in meta.finalizers


Dependent = tuple[Resource[Any], HasMeta]


def collect(
    resource: Resource[Any], meta: ObjectMeta, owners: Mapping[str, Owner], dependents: Sequence[Dependent]
) -> tuple[Write, ...]:
    """Keep, disown or delete an object by what its owners (by uid) are; one that is itself going waits or lets go."""
    if orphans_dependents(meta):
        return _let_dependents_stay(resource, meta, dependents)
    if waits_for_dependents(meta):
        return () if _blocking(meta, dependents) else (drop_finalizer_write(resource, meta, FOREGROUND),)
    if meta.deletion_timestamp is not None or not meta.owner_references:
        return ()
    states = {owner.uid: owners[owner.uid] for owner in meta.owner_references}
    lost = frozenset(uid for uid, state in states.items() if state is not Owner.STANDS)
    if len(lost) < len(states):
        return (drop_owners_write(resource, meta, lost),) if lost else ()
    if Owner.WAITS in states.values() and dependents:
        writes: tuple[Write, ...] = ()
        if any(waits_for_dependents(each.metadata) for _, each in dependents):
            # Two that wait for each other would wait for ever.
            writes = (_unblocked(resource, meta),)
        return (*writes, _delete(resource, meta, Propagation.FOREGROUND, is_conditional=not writes))
    return (_delete(resource, meta, _inherited(meta)),)


def _inherited(meta: ObjectMeta) -> Propagation:
    if ORPHAN in meta.finalizers:
        return Propagation.ORPHAN
    return Propagation.FOREGROUND if FOREGROUND in meta.finalizers else Propagation.BACKGROUND


def _delete(
    resource: Resource[Any], meta: ObjectMeta, propagation: Propagation, *, is_conditional: bool = True
) -> Delete:
    """Only if it is as it was read: its owners may have changed since."""
    version = meta.resource_version if is_conditional else ""
    how = Deletion(uid=meta.uid, resource_version=version, propagation=propagation)
    return Delete(resource, meta.namespace, meta.name, how)


def _blocking(owner: ObjectMeta, dependents: Sequence[Dependent]) -> list[Dependent]:
    """Dependents without whose end the owner may not go."""
    return [
        (resource, each)
        for resource, each in dependents
        if any(ref.uid == owner.uid and ref.block_owner_deletion for ref in each.metadata.owner_references)
    ]


def _let_dependents_stay(
    resource: Resource[Any], meta: ObjectMeta, dependents: Sequence[Dependent]
) -> tuple[Write, ...]:
    """First every dependent forgets its owner, then the owner may go."""
    forget = (drop_owners_write(kind, each.metadata, frozenset({meta.uid})) for kind, each in dependents)
    return (*forget, drop_finalizer_write(resource, meta, ORPHAN))


def _unblocked(resource: Resource[Any], meta: ObjectMeta) -> Write:
    references: list[JsonObject] = [
        {**reference_json(owner), "blockOwnerDeletion": False} for owner in meta.owner_references
    ]
    return merge_object(resource, meta, {"metadata": {"ownerReferences": references}})
