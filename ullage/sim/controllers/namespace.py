"""Deletes the contents of a namespace being deleted, then finalizes it. Woken by namespaces and their last objects."""

from collections.abc import Sequence
from typing import Any

from ullage.clock import Clock, Instant
from ullage.errors import NotFound
from ullage.kube.client.api import Deletion, KubeApi, Propagation
from ullage.kube.objects.meta import HasMeta
from ullage.model.fact_event import ObjectKey
from ullage.sim.controllers.controller_loop import ControllerLoop
from ullage.sim.controllers.object_cache import ObjectCache, key_of
from ullage.sim.controllers.objects import NAMESPACES, ActorNamespace
from ullage.sim.controllers.writes import DeleteObject, perform

FINALIZER = "kubernetes"


class NamespaceLoop:
    """Every cache of `contents` must have an index `namespace`."""

    def __init__(
        self, api: KubeApi, clock: Clock, namespaces: ObjectCache[ActorNamespace], contents: Sequence[ObjectCache[Any]]
    ) -> None:
        self._api = api
        self._namespaces = namespaces
        self._contents = contents
        self.actor: ControllerLoop[ObjectKey] = ControllerLoop("namespace", self._sync, clock)
        namespaces.listen(self._namespace_changed)
        for cache in contents:
            cache.listen(self._content_changed)

    async def _sync(self, key: ObjectKey) -> Instant | None:
        namespace = self._namespaces.get(key)
        if namespace is None or not _is_emptying(namespace):
            return None
        left = await self._delete_contents(key.name)
        if left == 0:
            await self._let_go(key.name)
        return None

    async def _delete_contents(self, name: str) -> int:
        """Delete all contents; returns the number of objects left. Those already being deleted are only waited for."""
        left = 0
        for cache in self._contents:
            found = await self._there(cache, name)
            left += len(found)
            await perform(
                self._api,
                [
                    DeleteObject(
                        cache.resource,
                        name,
                        each.metadata.name,
                        Deletion(uid=each.metadata.uid, propagation=Propagation.BACKGROUND),
                    )
                    for each in found
                    if each.metadata.deletion_timestamp is None
                ],
            )
        return left

    async def _there(self, cache: ObjectCache[Any], name: str) -> Sequence[HasMeta]:
        try:
            found: Sequence[HasMeta] = (await self._api.list(cache.resource, name)).items
        except NotFound:
            return ()  # the kind is not served, or not yet
        return found

    async def _let_go(self, name: str) -> None:
        whole = await self._api.get(NAMESPACES.whole(), name)
        finalizers = [each for each in whole.get("spec", {}).get("finalizers", ()) if each != FINALIZER]
        whole["spec"] = {"finalizers": finalizers}
        await self._api.replace(NAMESPACES.whole(), whole, subresource="finalize")

    def _namespace_changed(self, _old: ActorNamespace | None, new: ActorNamespace | None) -> None:
        if new is not None and _is_emptying(new):
            self.actor.queue.add(key_of(new))

    def _content_changed(self, old: HasMeta | None, new: HasMeta | None) -> None:
        """Reconcile again when an object was added late, and when the last one is gone."""
        changed = new or old
        if changed is None or not changed.metadata.namespace:
            return
        key = ObjectKey("", changed.metadata.namespace)
        namespace = self._namespaces.get(key)
        if namespace is None or not _is_emptying(namespace):
            return
        name = changed.metadata.namespace
        if old is None or not any(cache.having("namespace", name) for cache in self._contents):
            self.actor.queue.add(key)


def _is_emptying(namespace: ActorNamespace) -> bool:
    return namespace.metadata.deletion_timestamp is not None and FINALIZER in namespace.spec.finalizers
