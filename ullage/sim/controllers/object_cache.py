"""ObjectCache: objects as informers deliver them, by name, namespace, controller or any other index.

Written only by `take_in`, which informers call; listeners are told of every change in order.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from ullage.kube.client.resource import Resource
from ullage.kube.objects.meta import HasMeta
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.sim.controllers.ownership import controller_of

T = TypeVar("T", bound=HasMeta)

Index = Callable[[T], tuple[str, ...]]
Listener = Callable[[T | None, T | None], None]
"""Old and new: appeared (None, new), changed (old, new), gone (old, None)."""


def by_namespace(each: HasMeta) -> tuple[str, ...]:
    return (each.metadata.namespace,)


def by_controller(each: HasMeta) -> tuple[str, ...]:
    """The uid of the controller, or nothing for orphans."""
    owner = controller_of(each.metadata)
    return ("",) if owner is None else (owner.uid,)


def by_orphan_labels(each: HasMeta) -> tuple[str, ...]:
    """For objects without a controller: their namespace, and each of their labels in it."""
    meta = each.metadata
    if controller_of(meta) is not None:
        return ()
    return (meta.namespace, *(f"{meta.namespace}/{key}={value}" for key, value in sorted(meta.labels.items())))


def by_owners(each: HasMeta) -> tuple[str, ...]:
    return tuple(owner.uid for owner in each.metadata.owner_references)


def by_uid(each: HasMeta) -> tuple[str, ...]:
    return (each.metadata.uid,)


def key_of(each: HasMeta) -> ObjectKey:
    return ObjectKey(each.metadata.namespace, each.metadata.name)


class ObjectCache(Generic[T]):
    """All objects of one resource, as far as observed."""

    def __init__(self, resource: Resource[T], indexes: Mapping[str, Index[T]] | None = None) -> None:
        self.resource = resource
        self._objects: dict[ObjectKey, T] = {}
        self._by: dict[str, tuple[Index[T], dict[str, dict[ObjectKey, T]]]] = {
            name: (index, {}) for name, index in (indexes or {}).items()
        }
        self._listeners: list[Listener[T]] = []

    def listen(self, listener: Listener[T]) -> None:
        """Call `listener` for every change from now on."""
        self._listeners.append(listener)

    def get(self, key: ObjectKey) -> T | None:
        return self._objects.get(key)

    def all(self) -> list[T]:
        """In order of namespace and name."""
        return [self._objects[key] for key in sorted(self._objects)]

    def having(self, index: str, value: str) -> list[T]:
        """Objects found under a value of an index, in order of namespace and name."""
        found = self._by[index][1].get(value, {})
        return [found[key] for key in sorted(found)]

    def __len__(self) -> int:
        return len(self._objects)

    def take_in(self, event: FactEvent[T]) -> None:
        """Take over an informer's event."""
        match event:
            case Added(key, new):
                self._put(key, None, new)
            case Updated(key, old, new):
                self._put(key, old, new)
            case Deleted(key, old):
                del self._objects[key]
                for index, table in self._by.values():
                    for value in index(old):
                        _drop(table, value, key)
                self._notify(old, None)

    def _put(self, key: ObjectKey, old: T | None, new: T) -> None:
        self._objects[key] = new
        for index, table in self._by.values():
            after = index(new)
            for value in () if old is None else index(old):
                if value not in after:
                    _drop(table, value, key)
            for value in after:
                table.setdefault(value, {})[key] = new
        self._notify(old, new)

    def _notify(self, old: T | None, new: T | None) -> None:
        for listener in self._listeners:
            listener(old, new)


def _drop(table: dict[str, dict[ObjectKey, Any]], value: str, key: ObjectKey) -> None:
    held = table.get(value)
    if held is not None:
        held.pop(key, None)
        if not held:
            del table[value]
