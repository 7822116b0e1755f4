"""Open watches: each one turns the changes of a table into the lines its client asked for.

Synchronous throughout. The store feeds a watcher; the transport drains it, and is woken by a callback when
there is something to drain.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ullage.sim.apiserver.kinds.kind import ServedKind
from ullage.sim.apiserver.request.selectors import ObjectFilter
from ullage.sim.apiserver.request.status_errors import StatusError
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode
from ullage.sim.apiserver.storage.store import StoredChange, StoredObject
from ullage.sim.apiserver.storage.views import encoded

BOOKMARK_PERIOD = 60.0
BOOKMARK_BEFORE_END = 2.0


@dataclass(frozen=True, slots=True)
class WatchTerms:
    """Parameters of a watch request."""

    kind: ServedKind
    prefix: str
    choice: ObjectFilter
    bookmarks: bool
    ends: float
    """Instant at which the server closes it."""
    buffer: int


class Watcher:
    """One client's view of a table from a revision on."""

    def __init__(self, terms: WatchTerms, now: float, revision: Callable[[], int]) -> None:
        self.terms = terms
        self.closed = False
        self.wake: Callable[[], None] | None = None
        """Called when there are lines, or the end, to fetch."""
        self.on_close: Callable[[], None] | None = None
        self.dress: Callable[[bytes], bytes] | None = None
        """Turns each line into the form the client wants, where that is not the plain one."""
        self._lines: deque[bytes] = deque()
        self._revision = revision
        self._next_bookmark = min(now + BOOKMARK_PERIOD, max(terms.ends - BOOKMARK_BEFORE_END, now))
        self._initial = True

    def start(self) -> None:
        """From here on the buffer is bounded: what was there at the beginning does not count as being slow."""
        self._initial = False

    def see(self, change: StoredChange) -> None:
        """Add the line of one change, if it concerns the client."""
        if self.closed or not change.after.key.startswith(self.terms.prefix):
            return
        line = self._line(change)
        if line is None:
            return
        if not self._initial and len(self._lines) >= self.terms.buffer:
            self.close()  # as the real server does to a client that cannot keep up; what is buffered still goes out
            return
        self._lines.append(line)
        self._notify()

    def add(self, stored: StoredObject) -> None:
        """Add the line of an object that existed when the watch began."""
        if self.terms.choice.matches(stored.obj):
            self._lines.append(_event_line(b"ADDED", encoded(self.terms.kind, stored)))

    def refuse(self, refusal: StatusError) -> None:
        """End with an error line."""
        self._lines.append(_event_line(b"ERROR", encode(refusal.status())))
        self.close()

    def bookmark(self, *, initial_end: bool = False) -> None:
        """Add a bookmark: the revision up to which the client has seen all changes."""
        metadata: JsonObject = {"resourceVersion": str(self._revision())}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind = self.terms.kind
        marker = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        self._lines.append(_event_line(b"BOOKMARK", encode(marker)))

    def due(self) -> float:
        """Instant to look again even if nothing happens."""
        return self._next_bookmark if self.terms.bookmarks else self.terms.ends

    def take(self, now: float) -> list[bytes]:
        """Lines to send now. After the last of a closed watcher: nothing."""
        if not self.closed and self.terms.bookmarks and self._next_bookmark <= now < self.terms.ends:
            self.bookmark()
            last = self.terms.ends - BOOKMARK_BEFORE_END
            self._next_bookmark = self.terms.ends if now >= last else min(now + BOOKMARK_PERIOD, last)
        if now >= self.terms.ends:
            self.close()
        return self.drain()

    def drain(self) -> list[bytes]:
        """All lines, whatever the time: for a transport that keeps the time of this watch itself."""
        lines = list(self._lines)
        self._lines.clear()
        return lines if self.dress is None else [self.dress(line) for line in lines]

    @property
    def finished(self) -> bool:
        """Closed and drained."""
        return self.closed and not self._lines

    def close(self) -> None:
        """Idempotent."""
        if self.closed:
            return
        self.closed = True
        if self.on_close is not None:
            self.on_close()
        self._notify()

    def _notify(self) -> None:
        if self.wake is not None:
            self.wake()

    def _line(self, change: StoredChange) -> bytes | None:
        choice = self.terms.choice
        if choice.everything:
            kind = "DELETED" if change.deleted else "MODIFIED" if change.before is not None else "ADDED"
            return self._shared(change, kind)
        was = change.before is not None and choice.matches(change.before.obj)
        matches = not change.deleted and choice.matches(change.after.obj)
        if matches:
            return self._shared(change, "MODIFIED" if was else "ADDED")
        if not was or change.before is None:
            return None
        if change.deleted:
            return self._shared(change, "DELETED")
        # It is still there, but not for this client: it sees the object it knew, at the revision of its removal.
        last = change.before.fresh()
        last["metadata"]["resourceVersion"] = str(change.revision)
        return _event_line(b"DELETED", encoded(self.terms.kind, StoredObject(change.after.key, change.revision, last)))

    def _shared(self, change: StoredChange, event: str) -> bytes:
        name = event + self.terms.kind.api_version
        line = change.lines.get(name)
        if line is None:
            line = change.lines[name] = _event_line(event.encode(), encoded(self.terms.kind, change.after))
        return line


def _event_line(event: bytes, body: bytes) -> bytes:
    return b'{"type":"' + event + b'","object":' + body + b"}"
