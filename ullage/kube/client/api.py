"""`KubeApi`: the only interface of this project to Kubernetes.

A protocol with two implementations that a single contract suite holds to the same behaviour: HTTP to a real API server,
and an API server in memory (`ullage.sim.apiserver`). Calls raise the typed errors of `ullage.errors`, never a
transport's own. Nothing here retries a write that may have happened.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ullage.kube.client.resource import Resource

T = TypeVar("T")

Body = Mapping[str, Any] | msgspec.Struct
"""Body of a write: plain JSON, or a struct of `objects` (apiVersion and kind are filled in from the resource)."""


@dataclass(frozen=True, slots=True)
class ListSelector:
    """Label and field selector of a list or watch, in Kubernetes' own syntax."""

    labels: str = ""
    fields: str = ""


EVERYTHING = ListSelector()


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list. All pages of one list show the same moment: `resource_version`."""

    items: Sequence[T]
    resource_version: str
    remaining: int = 0
    """Number of items that follow on later pages, as far as the server says."""


class WatchEventType(StrEnum):
    """Type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One line of a watch. A bookmark has no object, only the moment up to which everything has been seen."""

    change: WatchEventType
    object: T | None
    resource_version: str


@dataclass(frozen=True, slots=True)
class MergePatch:
    """RFC 7386: objects merge, null deletes, lists are replaced. Put a resourceVersion in to make it conditional."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """RFC 6902: a list of operations, `test` among them; all or nothing."""

    operations: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply: these fields are mine and have these values; what I no longer name goes."""

    body: Mapping[str, Any]
    manager: str
    force: bool = True


Patch = MergePatch | JsonPatch | Apply


class Propagation(StrEnum):
    """Treatment of the dependents of a deleted object (propagationPolicy)."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class Deletion:
    """Options of a delete: preconditions (uid, resourceVersion), grace period, propagation, dry run."""

    uid: str = ""
    resource_version: str = ""
    grace_seconds: int | None = None
    propagation: Propagation | None = None
    dry_run: bool = False


DELETE_NOW = Deletion(grace_seconds=0)


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod's node, and what is written on the pod in the same transaction."""

    node: str
    uid: str = ""
    resource_version: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServedResources:
    """Resources an API server serves: ids (`pods`, `leases.coordination.k8s.io`) with their versions."""

    versions: Mapping[str, tuple[str, ...]]
    server_version: str

    def __contains__(self, resource: Resource[Any]) -> bool:
        return resource.version in self.versions.get(resource.id, ())


class KubeApi(Protocol):
    """Operations on an API server. Cluster-scoped resources take no namespace."""

    @property
    def lossless(self) -> bool:
        """True if nothing between client and server can fail or go silent, as in a simulation without faults.

        Informers need not list again in case an event was lost.
        """
        ...

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Read one object. Raises NotFound."""
        ...

    def pages(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        selection: ListSelector = EVERYTHING,
        chunk: int = 500,
        at_least: str | None = None,
    ) -> AsyncIterator[Page[T]]:
        """List in chunks of one resourceVersion. `at_least="0"` accepts what the server has cached. Raises Gone."""
        ...

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        selection: ListSelector = EVERYTHING,
        chunk: int = 500,
    ) -> Page[T]:
        """The whole list, consistent and in one piece; starts again by itself when its moment is compacted away."""
        ...

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        since: str,
        selection: ListSelector = EVERYTHING,
        seconds: int | None = None,
    ) -> AsyncIterator[Sequence[WatchEvent[T]]]:
        """Changes after `since`, in the batches they arrived in, with bookmarks; ends when the server closes it.

        Raises Gone when `since` is no longer kept, Unreadable on garbage, Unreachable when the connection breaks.
        """
        ...

    async def create(self, resource: Resource[T], body: Body, namespace: str = "", *, dry_run: bool = False) -> T:
        """Create an object. Raises AlreadyExists, Invalid."""
        ...

    async def replace(self, resource: Resource[T], body: Body, *, subresource: str = "", dry_run: bool = False) -> T:
        """Write exactly this object; conditional if it carries a resourceVersion. Raises Conflict, NotFound.

        What `body` leaves out is erased: to change an object read in part, use `ullage.kube.client.edit`.
        """
        ...

    async def patch(
        self, resource: Resource[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = ""
    ) -> T:
        """Change part of an object."""
        ...

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str = "",
        *,
        how: Deletion = Deletion(),  # noqa: B008 - frozen
    ) -> None:
        """Delete, or ask for deletion where finalizers or grace hold it. Raises NotFound, Conflict."""
        ...

    async def bind(self, pod: str, namespace: str, binding: Binding) -> None:
        """Put a pod on a node. Raises Conflict if it has one, is going, is gated, or is not this one any more."""
        ...

    async def evict(self, pod: str, namespace: str, *, how: Deletion = Deletion()) -> None:  # noqa: B008 - frozen
        """Delete a pod if its disruption budgets allow it. Raises TooManyRequests (later), NotFound, ServerFailure."""
        ...

    async def scale(self, resource: Resource[Any], name: str, namespace: str, replicas: int) -> None:
        """Set the replicas of anything that scales."""
        ...

    async def read_scale(self, resource: Resource[Any], name: str, namespace: str) -> int:
        """Read the desired replicas of anything that scales."""
        ...

    async def discover(self) -> ServedResources:
        """Read the served resources and the server's version."""
        ...

    async def close(self) -> None:
        """Close connections. Idempotent."""
        ...
