"""Collects objects that lost their owners. Woken by any change of any watched object; reads an owner it has never
observed from the server before it treats the owner as gone."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ullage.clock import Clock, Instant
from ullage.errors import NotFound
from ullage.kube.client.api import KubeApi
from ullage.kube.objects.meta import HasMeta, ObjectMeta, OwnerReference
from ullage.model.fact_event import ObjectKey
from ullage.sim.controllers.controller_loop import ControllerLoop
from ullage.sim.controllers.garbage import (
    Dependent,
    OwnerObject,
    collect,
    orphans_dependents,
    state_of_owner,
    waits_for_dependents,
)
from ullage.sim.controllers.object_cache import ObjectCache
from ullage.sim.controllers.writes import perform


class OwnedObject(NamedTuple):
    """One object of one of the watched resources."""

    resource: str
    key: ObjectKey


class GarbageCollector:
    """Every cache it is given must have an index `owners`."""

    def __init__(self, api: KubeApi, clock: Clock, caches: Sequence[ObjectCache[Any]]) -> None:
        self._api = api
        self._caches = {cache.resource.id: cache for cache in caches}
        self._kinds = {(cache.resource.group, cache.resource.kind): cache for cache in caches}
        self.actor: ControllerLoop[OwnedObject] = ControllerLoop("garbage", self._sync, clock, workers=20)
        for cache in caches:
            cache.listen(self._listener(cache.resource.id))

    async def _sync(self, item: OwnedObject) -> Instant | None:
        cache = self._caches[item.resource]
        found: HasMeta | None = cache.get(item.key)
        if found is None:
            return None
        meta = found.metadata
        owners: dict[str, OwnerObject] = {}
        if meta.deletion_timestamp is None:
            for reference in meta.owner_references:
                owners[reference.uid] = await self._owner(meta, reference)
        writes = collect(cache.resource, meta, owners, self._dependents(meta.uid))
        await perform(self._api, writes)
        return None

    async def _owner(self, meta: ObjectMeta, reference: OwnerReference) -> OwnerObject:
        cache = self._cache_of(reference)
        if cache is None or (cache.resource.namespaced and not meta.namespace):
            return OwnerObject.STANDS  # the owner's state cannot be known here: nothing is collected
        key = ObjectKey(meta.namespace if cache.resource.namespaced else "", reference.name)
        known: HasMeta | None = cache.get(key)
        if known is not None and known.metadata.uid == reference.uid:
            return state_of_owner(known.metadata)
        try:
            fresh = await self._api.get(cache.resource, key.name, key.namespace)
        except NotFound:
            return OwnerObject.GONE
        return state_of_owner(fresh.metadata if fresh.metadata.uid == reference.uid else None)

    def _cache_of(self, reference: OwnerReference) -> ObjectCache[Any] | None:
        group = reference.api_version.rpartition("/")[0]
        return self._kinds.get((group, reference.kind))

    def _dependents(self, uid: str) -> list[Dependent]:
        return [(cache.resource, each) for cache in self._caches.values() for each in cache.having("owners", uid)]

    def _listener(self, resource: str) -> Any:
        def changed(old: HasMeta | None, new: HasMeta | None) -> None:
            if new is not None:
                self._seen(resource, old, new)
            elif old is not None:
                self._wake_dependents(old.metadata.uid)
                self._wake_waiting_owners(old.metadata)

        return changed

    def _seen(self, resource: str, old: HasMeta | None, new: HasMeta) -> None:
        meta = new.metadata
        starts = old is None or old.metadata.deletion_timestamp is None
        if waits_for_dependents(meta) or orphans_dependents(meta):
            self._wake(resource, meta)
            if waits_for_dependents(meta) and starts:
                self._wake_dependents(meta.uid)
        elif any(self._is_suspect(meta, reference) for reference in meta.owner_references):
            self._wake(resource, meta)
        if old is not None and old.metadata.owner_references != meta.owner_references:
            self._wake_waiting_owners(old.metadata)

    def _is_suspect(self, meta: ObjectMeta, reference: OwnerReference) -> bool:
        """True if the owner is unknown, or known to be going with its dependents."""
        cache = self._cache_of(reference)
        if cache is None:
            return False
        owner = cache.get(ObjectKey(meta.namespace if cache.resource.namespaced else "", reference.name))
        return owner is None or owner.metadata.uid != reference.uid or waits_for_dependents(owner.metadata)

    def _wake(self, resource: str, meta: ObjectMeta) -> None:
        self.actor.queue.add(OwnedObject(resource, ObjectKey(meta.namespace, meta.name)))

    def _wake_dependents(self, uid: str) -> None:
        for resource, each in self._dependents(uid):
            self._wake(resource.id, each.metadata)

    def _wake_waiting_owners(self, meta: ObjectMeta) -> None:
        for reference in meta.owner_references:
            cache = self._cache_of(reference)
            if cache is None:
                continue
            owner = cache.get(ObjectKey(meta.namespace if cache.resource.namespaced else "", reference.name))
            if owner is not None and owner.metadata.uid == reference.uid and waits_for_dependents(owner.metadata):
                self._wake(cache.resource.id, owner.metadata)
