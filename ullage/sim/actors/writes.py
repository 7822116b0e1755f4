"""What an actor intends to write, and the hands that write it.

Plans are made by pure functions; nothing here decides. Writes happen in the order of the plan, except that pods are
created in growing batches and deleted side by side, as controllers do.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ullage.clock import Instant
from ullage.errors import NotFound
from ullage.kube.api import Deletion, KubeApi, MergePatch
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.resource import JsonObject, Resource


@dataclass(frozen=True, slots=True)
class Create:
    """Make a new object."""

    resource: Resource[Any]
    namespace: str
    body: JsonObject


@dataclass(frozen=True, slots=True)
class Merge:
    """Change fields of one object; a resourceVersion in the body makes it conditional."""

    resource: Resource[Any]
    namespace: str
    name: str
    body: JsonObject
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this very object."""

    resource: Resource[Any]
    namespace: str
    name: str
    how: Deletion


Write = Create | Merge | Delete


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write now, and when to look again if nothing changes until then."""

    writes: tuple[Write, ...] = ()
    wake_at: Instant | None = None

    def then(self, later: "Plan") -> "Plan":
        """Both, in this order; the earlier wake counts."""
        return Plan(self.writes + later.writes, earlier(self.wake_at, later.wake_at))


NOTHING = Plan()


def earlier(one: Instant | None, other: Instant | None) -> Instant | None:
    """The sooner of two moments that may not be."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def sparse(status: JsonObject, always: tuple[str, ...] = ()) -> JsonObject:
    """Zeros and empty texts as absent fields, as Kubernetes' own types write them, except those `always` written."""
    return {name: value if value or name in always else None for name, value in status.items()}


def merge_status(resource: Resource[Any], meta: ObjectMeta, status: JsonObject) -> Merge:
    """Write these status fields, if the object is still as it was read."""
    body = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
    return Merge(resource, meta.namespace, meta.name, body, "status")


def merge_object(resource: Resource[Any], meta: ObjectMeta, body: JsonObject) -> Merge:
    """Write these fields outside the status, if the object is still as it was read."""
    metadata = {**body.get("metadata", {}), "resourceVersion": meta.resource_version}
    return Merge(resource, meta.namespace, meta.name, {**body, "metadata": metadata})


def delete_exactly(resource: Resource[Any], meta: ObjectMeta, grace_seconds: int | None = None) -> Delete:
    """Delete the object that was read, and no namesake that came after it."""
    return Delete(resource, meta.namespace, meta.name, Deletion(uid=meta.uid, grace_seconds=grace_seconds))


async def perform(
    api: KubeApi,
    writes: Sequence[Write],
    *,
    undone: Callable[[Write], None] = lambda _: None,
    wrote: Callable[[Merge, str], None] = lambda *_: None,
) -> None:
    """Write it all. The first refusal ends it and is raised, after `undone` was told of every write not done.

    `wrote` is told the resourceVersion each merge led to.
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


async def _perform_one(api: KubeApi, write: Write, wrote: Callable[[Merge, str], None]) -> None:
    match write:
        case Create(resource, namespace, body):
            await api.create(resource, body, namespace)
        case Merge(resource, namespace, name, body, subresource):
            after = await api.patch(resource, name, MergePatch(body), namespace, subresource=subresource)
            wrote(write, after.metadata.resource_version)
        case Delete(resource, namespace, name, how):
            # What is already gone counts as deleted.
            with suppress(NotFound):
                await api.delete(resource, name, namespace, how=how)


def _batches(kind: type, writes: Sequence[Write]) -> Iterator[Sequence[Write]]:
    """Creations 1, 2, 4, ... (when all would fail for one reason, few are tried), deletions at once, merges singly."""
    done, size = 0, len(writes) if kind is Delete else 1
    while done < len(writes):
        yield writes[done : done + size]
        done, size = done + size, size * 2 if kind is Create else size
