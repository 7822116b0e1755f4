"""Empties a namespace that is to go, then lets it go. Wakes with namespaces and with the last of what was in them."""

from collections.abc import Sequence
from typing import Any

from ullage.clock import Clock, Instant
from ullage.errors import NotFound
from ullage.kube.api import Deletion, KubeApi, Propagation
from ullage.kube.objects.meta import HasMeta
from ullage.model.event import ObjectKey
from ullage.sim.actors.actor import Actor
from ullage.sim.actors.cache import Cache, key_of
from ullage.sim.actors.shapes import NAMESPACES, ActorNamespace
from ullage.sim.actors.writes import Delete, perform

FINALIZER = "kubernetes"


class NamespaceLoop:
    """Every cache of `contents` must have an index `namespace`."""

    def __init__(
        self, api: KubeApi, clock: Clock, namespaces: Cache[ActorNamespace], contents: Sequence[Cache[Any]]
    ) -> None:
        self._api = api
        self._namespaces = namespaces
        self._contents = contents
        self.actor: Actor[ObjectKey] = Actor("namespace", self._sync, clock)
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
        """How much is still there. What is seen already being deleted only has to be waited for."""
        left = 0
        for cache in self._contents:
            found = await self._there(cache, name)
            left += len(found)
            await perform(
                self._api,
                [
                    Delete(
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

    async def _there(self, cache: Cache[Any], name: str) -> Sequence[HasMeta]:
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
        """Look again when something appeared late, and when the last thing is gone."""
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
