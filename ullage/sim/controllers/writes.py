"""Writes that a simulated controller plans, and `perform`, which carries them out.

Plans are made by pure functions; nothing here decides. Writes are made in the order of the plan, except that pods are
created in growing batches and deleted concurrently, as controllers do.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ullage.clock import Instant
from ullage.errors import NotFound
from ullage.kube.client.api import Deletion, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.objects.meta import ObjectMeta


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Create an object."""

    resource: Resource[Any]
    namespace: str
    body: JsonObject


@dataclass(frozen=True, slots=True)
class MergeObject:
    """Change fields of one object; a resourceVersion in the body makes it conditional."""

    resource: Resource[Any]
    namespace: str
    name: str
    body: JsonObject
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete the object with this uid."""

    resource: Resource[Any]
    namespace: str
    name: str
    how: Deletion


Write = CreateObject | MergeObject | DeleteObject


@dataclass(frozen=True, slots=True)
class ControllerPlan:
    """Writes to make now, and the instant at which to reconcile again if nothing changes until then."""

    writes: tuple[Write, ...] = ()
    wake_at: Instant | None = None

    def then(self, later: "ControllerPlan") -> "ControllerPlan":
        """Both plans, in this order; the earlier wake-up counts."""
        return ControllerPlan(self.writes + later.writes, earlier(self.wake_at, later.wake_at))


NOTHING = ControllerPlan()


def earlier(one: Instant | None, other: Instant | None) -> Instant | None:
    """The earlier of two instants, either of which may be None."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def sparse(status: JsonObject, always: tuple[str, ...] = ()) -> JsonObject:
    """Zeros and empty texts as absent fields, as Kubernetes' own types write them, except those `always` written."""
    return {name: value if value or name in always else None for name, value in status.items()}


def merge_status(resource: Resource[Any], meta: ObjectMeta, status: JsonObject) -> MergeObject:
    """Write these status fields, if the object is still as it was read."""
    body = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
    return MergeObject(resource, meta.namespace, meta.name, body, "status")


def merge_object(resource: Resource[Any], meta: ObjectMeta, body: JsonObject) -> MergeObject:
    """Write these fields outside the status, if the object is still as it was read."""
    metadata = {**body.get("metadata", {}), "resourceVersion": meta.resource_version}
    return MergeObject(resource, meta.namespace, meta.name, {**body, "metadata": metadata})


def delete_exactly(resource: Resource[Any], meta: ObjectMeta, grace_seconds: int | None = None) -> DeleteObject:
    """Delete the object that was read, and no later object of the same name."""
    return DeleteObject(resource, meta.namespace, meta.name, Deletion(uid=meta.uid, grace_seconds=grace_seconds))


async def perform(
    api: KubeApi,
    writes: Sequence[Write],
    *,
    undone: Callable[[Write], None] = lambda _: None,
    wrote: Callable[[MergeObject, str], None] = lambda *_: None,
) -> None:
    """Make all writes. The first API error ends it and is raised, after `undone` was called for every write not made.

    `wrote` is called with the resourceVersion of each merge.
    """
    left = list(writes)
    for kind, group in groupby(writes, type):
        for batch in _batches(kind, list(group)):
            outcomes = await asyncio.gather(
                *(_perform_one(api, write, wrote) for write in batch), return_exceptions=True
            )
            left = left[len(batch) :]
            failures = [(write, error) for write, error in zip(batch, outcomes, strict=True) if error is not None]
            if failures:
                for write in (*(write for write, _ in failures), *left):
                    undone(write)
                raise failures[0][1]


async def _perform_one(api: KubeApi, write: Write, wrote: Callable[[MergeObject, str], None]) -> None:
    match write:
        case CreateObject(resource, namespace, body):
            await api.create(resource, body, namespace)
        case MergeObject(resource, namespace, name, body, subresource):
            after = await api.patch(resource, name, MergePatch(body), namespace, subresource=subresource)
            wrote(write, after.metadata.resource_version)
        case DeleteObject(resource, namespace, name, how):
            # What is already gone counts as deleted.
            with suppress(NotFound):
                await api.delete(resource, name, namespace, how=how)


def _batches(kind: type, writes: Sequence[Write]) -> Iterator[Sequence[Write]]:
    """Creations 1, 2, 4, ... (if all would fail for one reason, few are tried), deletions at once, merges singly."""
    done, size = 0, len(writes) if kind is DeleteObject else 1
    while done < len(writes):
        yield writes[done : done + size]
        done, size = done + size, size * 2 if kind is CreateObject else size
