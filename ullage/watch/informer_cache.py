"""Cache of one resource: lists and watch lines in, fact events out. No I/O, no time.

Holds one small record per object: its uid, its resourceVersion and the fact it was read as; the object itself is let
go. Every method that returns events is a generator: the cache moves on as the events are taken, one by one, so it never
knows more than it has told.
"""

from collections.abc import Callable, Iterator, Mapping
from sys import intern
from typing import Any, Generic, NamedTuple, TypeVar, cast

from ullage.errors import Unreadable
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated

T = TypeVar("T")
F = TypeVar("F")

Version = int | str
"""A resourceVersion. Numbers can be compared; where a server has others, only equality means something."""


class ObjectIdentity(NamedTuple):
    """Identity of an object and of its state."""

    key: ObjectKey
    uid: str
    version: Version


def version_of(text: str) -> Version:
    """A resourceVersion as a number, where it is one."""
    return int(text) if text.isdecimal() else text


def identity_of(thing: object) -> ObjectIdentity:
    """Identity of a struct of ours, or of an object as plain JSON. Raises Unreadable for an object without a name."""
    if isinstance(thing, dict):
        return _identity_of_json(thing)
    meta = cast(Any, thing).metadata
    if not meta.name:
        raise Unreadable("an object without a name")
    return ObjectIdentity(ObjectKey(intern(meta.namespace), meta.name), meta.uid, version_of(meta.resource_version))


def _identity_of_json(thing: dict[str, Any]) -> ObjectIdentity:
    try:
        meta = thing["metadata"]
        key = ObjectKey(intern(meta.get("namespace", "")), intern(meta["name"]))
        return ObjectIdentity(key, meta.get("uid", ""), version_of(meta.get("resourceVersion", "")))
    except (KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"an object without readable metadata ({type(error).__name__}: {error})") from error


def is_later(version: Version, known: Version) -> bool:
    """True if the first is later than the second. Versions that cannot be ordered count as later if they differ."""
    if isinstance(version, int) and isinstance(known, int):
        return version > known
    return version != known


class _Known(Generic[F]):
    __slots__ = ("fact", "uid", "version")

    def __init__(self, uid: str, version: Version, fact: F) -> None:
        self.uid = uid
        self.version = version
        self.fact = fact


class _Facts(Mapping[ObjectKey, F]):
    """Key to fact, to look at only."""

    def __init__(self, known: Mapping[ObjectKey, _Known[F]]) -> None:
        self._known = known

    def __getitem__(self, key: ObjectKey) -> F:
        return self._known[key].fact

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class InformerCache(Generic[T, F]):
    """InformerCache: facts of one resource as last delivered.

    An object that `read` finds Unreadable keeps its last readable fact: to forget it would be to think its place free.
    """

    def __init__(
        self,
        read: Callable[[T], F],
        on_unreadable: Callable[[ObjectKey, Unreadable], None],
        observed: Callable[[F | None, F], F] = lambda _, new: new,
    ) -> None:
        """`observed` makes of what was read, and of the fact before it, what is kept."""
        self._read = read
        self._observed = observed
        self._on_unreadable = on_unreadable
        self._known: dict[ObjectKey, _Known[F]] = {}
        self.facts: Mapping[ObjectKey, F] = _Facts(self._known)

    def put(self, thing: T) -> Iterator[FactEvent[F]]:
        """The watch says it was added or modified."""
        key, uid, version = identity_of(thing)
        known = self._known.get(key)
        if known is None or known.uid != uid:
            if known is not None and is_later(version, known.version):
                del self._known[key]
                yield Deleted(key, known.fact)
                known = None
            if known is None and (found := self._readable(thing)) is not None:
                yield self._appeared(key, found)
        elif is_later(version, known.version) and (found := self._readable(thing)) is not None:
            yield from self._renew(key, known, found)

    def remove(self, thing: T) -> Iterator[FactEvent[F]]:
        """The watch says it was deleted."""
        key, uid, version = identity_of(thing)
        known = self._known.get(key)
        # A uid is deleted once and never comes back; a deletion of another uid counts only if it is the later version.
        if known is not None and (known.uid == uid or is_later(version, known.version)):
            del self._known[key]
            yield Deleted(key, known.fact)

    def listing(self) -> "CacheListing[T, F]":
        """Begin to take in a whole list."""
        return CacheListing(self)

    def _readable(self, thing: T) -> _Known[F] | None:
        key, uid, version = identity_of(thing)
        try:
            return _Known(uid, version, self._read(thing))
        except Unreadable as error:
            self._on_unreadable(key, error)
            return None

    def _appeared(self, key: ObjectKey, found: _Known[F]) -> FactEvent[F]:
        found.fact = self._observed(None, found.fact)
        self._known[key] = found
        return Added(key, found.fact)

    def _renew(self, key: ObjectKey, known: _Known[F], found: _Known[F]) -> Iterator[FactEvent[F]]:
        old, new = known.fact, self._observed(known.fact, found.fact)
        known.version = found.version
        if new != old:
            known.fact = new
            yield Updated(key, old, new)


class CacheListing(Generic[T, F]):
    """A list being taken in page by page. Nothing is delivered before it is complete: half a list is no state."""

    def __init__(self, cache: InformerCache[T, F]) -> None:
        self._cache = cache
        self._found: dict[ObjectKey, _Known[F]] = {}

    def add(self, thing: T) -> None:
        """Take in one object of the list. An object known in this very version is not read again."""
        key, uid, version = identity_of(thing)
        known = self._cache._known.get(key)
        same = known is not None and known.uid == uid
        if known is not None and same and known.version == version:
            self._found[key] = known
        elif (found := self._cache._readable(thing)) is not None:
            self._found[key] = found
        elif known is not None and same:
            self._found[key] = known

    def finish(self) -> Iterator[FactEvent[F]]:
        """Yield the changes a list makes: first deleted objects, then new or changed ones, in the order of the list."""
        known, found = self._cache._known, self._found
        gone = [key for key, old in known.items() if key not in found or found[key].uid != old.uid]
        for key in gone:
            yield Deleted(key, known.pop(key).fact)
        for key, new in found.items():
            old = known.get(key)
            if old is None:
                yield self._cache._appeared(key, new)
            elif old is not new:
                yield from self._cache._renew(key, old, new)
