"""Custom kinds come into service when their definition is written, and leave with it.

Nothing is written while the store is telling its watchers of a change: what a definition causes is done by `settle`,
after the request that caused it.
"""

from ullage.sim.apiserver.custom.kinds import kinds_of
from ullage.sim.apiserver.kinds.kind import ServedKind
from ullage.sim.apiserver.kinds.registry import KindRegistry
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.storage.store import StoredChange, StoredObject
from ullage.sim.apiserver.storage.watchers import Watcher

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class CustomKinds:
    """Keeps the registry in step with the stored definitions."""

    def __init__(self, registry: KindRegistry, world: ServerContext) -> None:
        self._registry = registry
        self._world = world
        self._served: dict[str, list[ServedKind]] = {}
        self._watchers: dict[str, list[Watcher]] = {}
        self._leaving: list[str] = []
        world.store.shelf(DEFINITIONS).listen(self._follow)

    def attach(self, kind: ServedKind, watcher: Watcher) -> None:
        """A watch of a kind ends with the kind."""
        if kind.custom:
            kept = [other for other in self._watchers.get(kind.id, []) if not other.closed]
            self._watchers[kind.id] = [*kept, watcher]

    def settle(self) -> None:
        """Finish the deletion of definitions: their objects are removed first, then the definitions."""
        for name in list(self._leaving):
            stored = self._world.store.shelf(DEFINITIONS).get(name)
            if stored is None:
                self._leaving.remove(name)
            elif self._emptied(stored.obj):
                self._leaving.remove(name)
                self._world.store.drop(DEFINITIONS, name)

    def _follow(self, change: StoredChange) -> None:
        name = change.after.key
        for kind in self._served.pop(name, []):
            self._registry.remove(kind)
        if change.deleted:
            for watcher in self._watchers.pop(name, []):
                watcher.close()
            return
        self._served[name] = kinds_of(change.after.obj)
        for kind in self._served[name]:
            self._registry.add(kind)
        if change.after.obj["metadata"].get("deletionTimestamp") and name not in self._leaving:
            self._leaving.append(name)

    def _emptied(self, definition: JsonObject) -> bool:
        """Delete the objects; those with finalizers are marked and waited for."""
        place = definition["metadata"]["name"]
        shelf = self._world.store.shelf(place)
        for stored in list(shelf.values()):
            self._delete(place, stored)
        return len(shelf) == 0

    def _delete(self, place: str, stored: StoredObject) -> None:
        metadata = stored.obj["metadata"]
        if not metadata.get("finalizers"):
            self._world.store.drop(place, stored.key)
        elif not metadata.get("deletionTimestamp"):
            marked = stored.fresh()
            marked["metadata"]["deletionTimestamp"] = self._world.timestamp()
            marked["metadata"]["deletionGracePeriodSeconds"] = 0
            marked["metadata"]["generation"] = metadata.get("generation", 0) + 1
            self._world.store.put(place, stored.key, marked, stored.owners)
