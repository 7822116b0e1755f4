"""OwnerController: the loop of every controller that owns other objects. Woken by owners and their children.

It never acts on a cache older than its own last writes: children it created or deleted must have been observed, and the
owner must be at least as new as the status it wrote.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ullage.clock import Clock, Instant
from ullage.errors import ApiError, Conflict
from ullage.kube.client.api import KubeApi
from ullage.kube.objects.meta import HasMeta, ObjectMeta
from ullage.model.fact_event import ObjectKey
from ullage.model.selector import Operator, Selector
from ullage.sim.controllers.controller_loop import ControllerLoop
from ullage.sim.controllers.expectations import Expectations
from ullage.sim.controllers.object_cache import ObjectCache, key_of
from ullage.sim.controllers.ownership import adopt_write, claim, controller_of, controller_reference, release_write
from ullage.sim.controllers.writes import (
    ControllerPlan,
    CreateObject,
    DeleteObject,
    MergeObject,
    Write,
    earlier,
    perform,
)

W = TypeVar("W", bound=HasMeta)
C = TypeVar("C", bound=HasMeta)


Look = Callable[[W, Sequence[C], bool, Instant], ControllerPlan]
"""Plan for an owner and its children; the flag says that all its own writes have been observed."""


@dataclass(frozen=True, slots=True)
class ControllerSpec(Generic[W, C]):
    """Name, reconcile function and selector of one simulated workload controller."""

    name: str
    look: Look[W, C]
    selector: Callable[[W], Selector | None]
    """Selector of children that may be adopted; None adopts nothing."""
    on_failure: Callable[[W, Sequence[C], str, Instant], ControllerPlan] | None = None
    """Plan to carry out when the children could not be managed."""


class OwnerController(Generic[W, C]):
    """All owners of one kind, and the children they control."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        spec: ControllerSpec[W, C],
        owners: ObjectCache[W],
        children: ObjectCache[C],
    ) -> None:
        self._api = api
        self._clock = clock
        self._spec = spec
        self._owners = owners
        self._children = children
        self._expectations = Expectations()
        self._written: dict[ObjectKey, int] = {}
        self.actor: ControllerLoop[ObjectKey] = ControllerLoop(spec.name, self._sync, clock)
        owners.listen(self._owner_changed)
        children.listen(self._child_changed)

    def wake(self, key: ObjectKey) -> None:
        """Reconcile this owner soon: an object it depends on, other than its children, has changed."""
        self.actor.queue.add(key)

    def wake_controller_of(self, meta: ObjectMeta) -> None:
        """Reconcile the controller of this object, if it is one of ours."""
        key = self._owner_key(meta)
        if key is not None:
            self.wake(key)

    def wake_all(self) -> None:
        for owner in self._owners.all():
            self.wake(key_of(owner))

    async def _sync(self, key: ObjectKey) -> Instant | None:
        now = self._clock.now()
        owner = self._owners.get(key)
        if owner is None:
            self._expectations.forget(key)
            self._written.pop(key, None)
            return None
        if int(owner.metadata.resource_version or 0) < self._written.get(key, 0):
            return None  # our own write is not observed yet; its watch event wakes this owner
        settled = self._expectations.met(key, now)
        children = await self._claimed(owner)
        plan = self._spec.look(owner, children, settled, now)
        self._expect(key, plan.writes, now)
        try:
            await perform(self._api, plan.writes, undone=lambda write: self._undone(key, write), wrote=self._wrote)
        except ApiError as error:
            await self._report(owner, children, error)
            raise
        pending = None if self._expectations.met(key, now) else self._expectations.expires_at(key)
        return earlier(plan.wake_at, pending)

    async def _claimed(self, owner: W) -> Sequence[C]:
        """The owner's children, after adopting orphans that match and releasing children that no longer do."""
        meta = owner.metadata
        selector = self._spec.selector(owner)
        own = self._children.having("controller", meta.uid)
        if selector is None:
            return own
        claims = claim(meta, selector, (*own, *self._orphans(meta.namespace, selector)))
        kind = self._children.resource
        if claims.adopt:
            fresh = await self._api.get(self._owners.resource, meta.name, meta.namespace)
            if fresh.metadata.uid != meta.uid or fresh.metadata.deletion_timestamp is not None:
                raise Conflict(f"{self._owners.resource.id} {meta.namespace}/{meta.name} is going and adopts nobody")
        reference = controller_reference(self._owners.resource, meta)
        changes = (
            *(adopt_write(kind, each.metadata, reference) for each in claims.adopt),
            *(release_write(kind, each.metadata, meta.uid) for each in claims.release),
        )
        await perform(self._api, changes)
        return sorted((*claims.mine, *claims.adopt), key=lambda each: each.metadata.name)

    def _orphans(self, namespace: str, selector: Selector) -> list[C]:
        """Orphans that may match, found by one of the labels they must have."""
        for each in selector.requirements:
            if each.operator is Operator.IN and len(each.values) == 1:
                return self._children.having("orphan", f"{namespace}/{each.key}={each.values[0]}")
        return self._children.having("orphan", namespace)

    async def _report(self, owner: W, children: Sequence[C], error: ApiError) -> None:
        if self._spec.on_failure is not None and not isinstance(error, Conflict):
            plan = self._spec.on_failure(owner, children, error.message, self._clock.now())
            await perform(self._api, plan.writes, wrote=self._wrote)

    def _expect(self, key: ObjectKey, writes: Sequence[Write], now: Instant) -> None:
        ours = [write for write in writes if write.resource.id == self._children.resource.id]
        creations = sum(isinstance(write, CreateObject) for write in ours)
        deletions = frozenset(write.how.uid for write in ours if isinstance(write, DeleteObject))
        if creations or deletions:
            self._expectations.expect(key, creations=creations, deletions=deletions, now=now)

    def _undone(self, key: ObjectKey, write: Write) -> None:
        if isinstance(write, CreateObject):
            self._expectations.created(key)
        elif isinstance(write, DeleteObject):
            self._expectations.deleted(key, write.how.uid)

    def _wrote(self, write: MergeObject, version: str) -> None:
        if write.resource.id == self._owners.resource.id:
            self._written[ObjectKey(write.namespace, write.name)] = int(version or 0)

    def _owner_changed(self, old: W | None, new: W | None) -> None:
        changed = new or old
        if changed is not None:
            self.wake(key_of(changed))

    def _child_changed(self, old: C | None, new: C | None) -> None:
        before = None if old is None else self._owner_key(old.metadata)
        after = None if new is None else self._owner_key(new.metadata)
        if new is not None and after is not None:
            if old is None:
                self._expectations.created(after)
            if new.metadata.deletion_timestamp is not None:
                self._expectations.deleted(after, new.metadata.uid)
        if old is not None and before is not None and new is None:
            self._expectations.deleted(before, old.metadata.uid)
        for key in {before: None, after: None}:
            if key is not None:
                self.wake(key)
        if new is not None and controller_of(new.metadata) is None:
            self._wake_adopters(new)

    def _wake_adopters(self, orphan: C) -> None:
        for owner in self._owners.having("namespace", orphan.metadata.namespace):
            selector = self._spec.selector(owner)
            if selector is not None and selector.matches(orphan.metadata.labels):
                self.wake(key_of(owner))

    def _owner_key(self, meta: ObjectMeta) -> ObjectKey | None:
        """Key of the object's controller, if it is of our kind and has the uid we know."""
        owner = controller_of(meta)
        if owner is None or owner.kind != self._owners.resource.kind:
            return None
        key = ObjectKey(meta.namespace, owner.name)
        known = self._owners.get(key)
        return key if known is not None and known.metadata.uid == owner.uid else None
