"""Store of objects: one revision counter, one table per resource, and enough history to show the past.

A table keeps its keys sorted, so a page of a list is a slice, and keeps its latest changes, so that a watch can start
in the past and a list can be shown as it was. What is older than the kept history is gone, and says so.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ullage.sim.apiserver.storage.json_bytes import JsonObject, decode, encode


class StoredObject:
    """One version of one object. Never changed; `obj` is for reading only, `fresh()` is a copy to work on."""

    __slots__ = ("body", "key", "obj", "owners", "revision")

    def __init__(self, key: str, revision: int, obj: JsonObject, owners: object = None) -> None:
        self.key = key
        self.revision = revision
        self.obj = obj
        self.body = encode(obj)
        self.owners = owners
        """Managed fields of the object. Opaque to the store; `merge` reads them."""

    def fresh(self) -> JsonObject:
        result: JsonObject = decode(self.body)
        return result


@dataclass(slots=True, eq=False)
class StoredChange:
    """One step of history: what was there, what is there now. A deletion's `after` is the object's last state."""

    revision: int
    before: StoredObject | None
    after: StoredObject
    deleted: bool = False
    lines: dict[str, bytes] = field(default_factory=dict)
    """Encoded watch lines by event type and served version, made once for all watchers."""


class Compacted(Exception):
    """That revision is no longer kept."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history before {oldest} is gone")
        self.oldest = oldest


@dataclass(slots=True)
class StoreRevision:
    """A table as it was at a revision: the present, with later changes undone."""

    revision: int
    undone: dict[str, StoredObject | None]


Listener = Callable[[StoredChange], None]


class ObjectTable:
    """All objects of one resource, and their latest changes."""

    def __init__(self, keep: int, start: int) -> None:
        self._objects: dict[str, StoredObject] = {}
        self._keys: list[str] = []
        self._history: deque[StoredChange] = deque()
        self._keep = keep
        self._listeners: dict[int, Listener] = {}
        self._next_listener = 0
        self.compacted = start
        """The earliest revision that can still be shown."""

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: str) -> StoredObject | None:
        return self._objects.get(key)

    def values(self) -> Iterator[StoredObject]:
        """In key order. Do not write while iterating: take a list."""
        return (self._objects[key] for key in self._keys)

    def record(self, change: StoredChange) -> None:
        """Apply a change, add it to the history, and call the listeners."""
        key = change.after.key
        if change.deleted:
            del self._objects[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if key not in self._objects:
                insort(self._keys, key)
            self._objects[key] = change.after
        self._history.append(change)
        if len(self._history) > self._keep:
            self.compacted = self._history.popleft().revision
        for listener in list(self._listeners.values()):
            listener(change)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call back on every change from now on, until the returned function is called."""
        number = self._next_listener
        self._next_listener += 1
        self._listeners[number] = listener

        def stop() -> None:
            self._listeners.pop(number, None)

        return stop

    def changes_since(self, revision: int) -> list[StoredChange]:
        """Changes after a revision. Raises Compacted."""
        if revision < self.compacted:
            raise Compacted(self.compacted)
        found: list[StoredChange] = []
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            found.append(change)
        found.reverse()
        return found

    def at_revision(self, revision: int) -> StoreRevision:
        """The table as it was at a revision. Raises Compacted."""
        undone: dict[str, StoredObject | None] = {}
        for change in reversed(self.changes_since(revision)):
            undone[change.after.key] = change.before
        return StoreRevision(revision, undone)

    def scan(self, at: StoreRevision, prefix: str, start: str) -> Iterator[StoredObject]:
        """Objects under a prefix from a key on, as they were at that revision, in key order."""
        for key in self._range(at, prefix, start):
            stored = at.undone[key] if key in at.undone else self._objects[key]
            if stored is not None:
                yield stored

    def count(self, at: StoreRevision, prefix: str, start: str) -> int:
        """Number of objects `scan` would yield."""
        low, high = self._bounds(prefix, start)
        if not at.undone:
            return high - low
        return sum(1 for _ in self.scan(at, prefix, start))

    def _bounds(self, prefix: str, start: str) -> tuple[int, int]:
        low = bisect_left(self._keys, max(prefix, start))
        high = bisect_left(self._keys, prefix[:-1] + chr(ord(prefix[-1]) + 1)) if prefix else len(self._keys)
        return low, max(low, high)

    def _range(self, at: StoreRevision, prefix: str, start: str) -> Iterator[str]:
        low, high = self._bounds(prefix, start)
        if not at.undone:
            return (self._keys[index] for index in range(low, high))
        least = max(prefix, start)
        vanished = {key for key in at.undone if key not in self._objects and key.startswith(prefix) and key >= least}
        return iter(sorted({*self._keys[low:high], *vanished}))

    def compact(self, revision: int) -> None:
        """Forget all changes up to a revision."""
        while self._history and self._history[0].revision <= revision:
            self._history.popleft()
        self.compacted = max(self.compacted, revision)


class Store:
    """All tables under one revision counter."""

    def __init__(self, keep: int) -> None:
        self._shelves: dict[str, ObjectTable] = {}
        self._keep = keep
        self._start = 1
        self.revision = 1

    def shelf(self, name: str) -> ObjectTable:
        found = self._shelves.get(name)
        if found is None:
            found = self._shelves[name] = ObjectTable(self._keep, self._start)
        return found

    def put(self, shelf: str, key: str, obj: JsonObject, owners: object = None) -> StoredObject:
        """Write an object; its resourceVersion is set here and nowhere else."""
        place = self.shelf(shelf)
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        stored = StoredObject(key, self.revision, obj, owners)
        place.record(StoredChange(self.revision, place.get(key), stored))
        return stored

    def drop(self, shelf: str, key: str) -> StoredObject:
        """Remove an object. Returns its last state, with the revision of the removal."""
        place = self.shelf(shelf)
        before = place.get(key)
        if before is None:
            raise KeyError(key)
        self.revision += 1
        obj = before.fresh()
        obj["metadata"]["resourceVersion"] = str(self.revision)
        gone = StoredObject(key, self.revision, obj, before.owners)
        place.record(StoredChange(self.revision, before, gone, deleted=True))
        return gone

    def compact(self) -> int:
        """Forget all history up to now. Returns the revision."""
        self._start = self.revision
        for shelf in self._shelves.values():
            shelf.compact(self.revision)
        return self.revision
