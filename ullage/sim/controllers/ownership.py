"""Ownership: controller references, and the objects a selector adopts or releases. Pure."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.objects.meta import HasMeta, ObjectMeta, OwnerReference
from ullage.model.selector import Selector
from ullage.sim.controllers.writes import MergeObject, merge_object

T = TypeVar("T", bound=HasMeta)


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The owner that is the controller; None if there is none."""
    return next((owner for owner in meta.owner_references if owner.controller), None)


def controller_reference(resource: Resource[Any], meta: ObjectMeta) -> JsonObject:
    """The reference an object carries to the owner that made it."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def reference_json(owner: OwnerReference) -> JsonObject:
    """A reference as it was read, to be written back."""
    body: JsonObject = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if owner.controller:
        body["controller"] = True
    if owner.block_owner_deletion:
        body["blockOwnerDeletion"] = True
    return body


@dataclass(frozen=True, slots=True)
class OwnershipChanges(Generic[T]):
    """Children of an owner: those that are its own, those to adopt, and those to release."""

    mine: tuple[T, ...]
    adopt: tuple[T, ...]
    release: tuple[T, ...]


def claim(owner: ObjectMeta, selector: Selector, candidates: Iterable[T]) -> OwnershipChanges[T]:
    """Sort by reference and labels. Matching orphans are adopted; children that no longer match are released."""
    mine: list[T] = []
    adopt: list[T] = []
    release: list[T] = []
    going = owner.deletion_timestamp is not None
    for each in candidates:
        controller, fits = controller_of(each.metadata), selector.matches(each.metadata.labels)
        if controller is not None:
            if controller.uid != owner.uid:
                continue
            if fits:
                mine.append(each)
            elif not going:
                release.append(each)
        elif fits and not going and each.metadata.deletion_timestamp is None:
            adopt.append(each)
    return OwnershipChanges(tuple(mine), tuple(adopt), tuple(release))


def adopt_write(resource: Resource[Any], meta: ObjectMeta, reference: JsonObject) -> MergeObject:
    """Add the owner's reference to an orphan."""
    references = [*(reference_json(owner) for owner in meta.owner_references), reference]
    return merge_object(resource, meta, {"metadata": {"ownerReferences": references}})


def release_write(resource: Resource[Any], meta: ObjectMeta, owner_uid: str) -> MergeObject:
    """Remove the owner's reference."""
    return drop_owners_write(resource, meta, frozenset({owner_uid}))


def drop_owners_write(resource: Resource[Any], meta: ObjectMeta, uids: frozenset[str]) -> MergeObject:
    """Remove several owners' references."""
    left = [reference_json(owner) for owner in meta.owner_references if owner.uid not in uids]
    return merge_object(resource, meta, {"metadata": {"ownerReferences": left or None}})


def drop_finalizer_write(resource: Resource[Any], meta: ObjectMeta, finalizer: str) -> MergeObject:
    """Remove this finalizer."""
    left = [each for each in meta.finalizers if each != finalizer]
    return merge_object(resource, meta, {"metadata": {"finalizers": left or None}})


def pod_from_template(template: JsonObject, owner: JsonObject, *, generate_name: str) -> JsonObject:
    """The pod a controller makes: the template's labels, annotations, finalizers and spec, and a reference to it."""
    given = template.get("metadata") or {}
    metadata: JsonObject = {"generateName": generate_name, "ownerReferences": [owner]}
    for field in ("labels", "annotations"):
        if given.get(field):
            metadata[field] = dict(given[field])
    if given.get("finalizers"):
        metadata["finalizers"] = list(given["finalizers"])
    return {"metadata": metadata, "spec": dict(template.get("spec") or {})}


_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: object, collisions: int = 0) -> str:
    """Ten characters that name a template: equal for equal content, without vowels so that no words appear."""
    text = json.dumps([template, collisions], sort_keys=True, separators=(",", ":"))
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    letters = []
    for _ in range(10):
        number, rest = divmod(number, len(_SAFE))
        letters.append(_SAFE[rest])
    return "".join(letters)
