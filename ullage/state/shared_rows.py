"""SharedRows: small dicts or lists by key, of which a forked snapshot copies only those that are written to.

There is one for each of 5,000 nodes and 40,000 claims. To copy them all held the event loop for most of a fork.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, Protocol, Self, TypeVar

from ullage.state.forking import Forkable


class _Copied(Protocol):
    def copy(self) -> Self: ...


K = TypeVar("K", bound=Hashable)
C = TypeVar("C", bound=_Copied)


class SharedRows(Forkable, Generic[K, C]):
    """Rows by key. Read them with `get`, write to what `own` returns, and keep neither across a change."""

    def __init__(self, empty: Callable[[], C]) -> None:
        self._empty = empty
        self._rows: dict[K, C] = {}
        self._owned: set[K] | None = None
        """Rows no fork shares; None if there was no fork, and all are."""

    def fork(self) -> "SharedRows[K, C]":
        """Return a copy that shares all rows. Either side copies a row before it first writes to it."""
        twin: SharedRows[K, C] = SharedRows(self._empty)
        twin._rows = self._rows.copy()
        self._owned, twin._owned = set(), set()
        return twin

    def __contains__(self, key: K) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[K]:
        return iter(self._rows)

    def get(self, key: K) -> C | None:
        """The row of a key, to be read; None if it has none."""
        return self._rows.get(key)

    def own(self, key: K) -> C:
        """The row of a key, to be written to; a new one if it has none."""
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._empty()
        elif self._owned is None or key in self._owned:
            return row
        else:
            row = self._rows[key] = row.copy()
        if self._owned is not None:
            self._owned.add(key)
        return row

    def drop(self, key: K) -> None:
        """Forget a row."""
        del self._rows[key]
        if self._owned is not None:
            self._owned.discard(key)
