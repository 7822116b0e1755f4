"""Patches to every connected browser: each once, in order, from where it was. Slow browsers are disconnected.

Lives in one loop. A browser that reconnects sends the id of the last patch it received. If all later patches are still
kept it gets those, else everything.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from ullage.web.view.patch import PatchSum, ViewPatch

KEPT = 240
"""Patches kept for browsers that reconnect: about a minute."""
MOST_BEHIND = 40
"""Patches queued for one browser. A browser further behind is disconnected, and reconnects when it can."""
MOST_LISTENERS = 64


class TooMany(Exception):
    """The maximum number of browsers is connected."""


class BrowserStream:
    """One browser: patches queued for it."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._bell = asyncio.Event()
        self._left_behind = False

    def give(self, frame: bytes) -> None:
        if len(self._waiting) >= MOST_BEHIND:
            self._left_behind = True
        else:
            self._waiting.append(frame)
        self._bell.set()

    @property
    def left_behind(self) -> bool:
        """True if the browser did not read its patches in time. It gets the missing ones when it reconnects."""
        return self._left_behind

    async def frames(self, quiet: float) -> AsyncIterator[bytes]:
        """Frames to write, until the browser is left behind.

        A comment is sent after `quiet` seconds, so that proxies keep the connection open.
        """
        while not self._left_behind:
            if self._waiting:
                yield self._waiting.popleft()
                continue
            self._bell.clear()
            try:
                async with asyncio.timeout(quiet):
                    await self._bell.wait()
            except TimeoutError:
                yield b": still here\n\n"


class PatchHub:
    """Sum of all patches, the last of them, and the connected browsers. `life` tells this run from others."""

    def __init__(self, life: str) -> None:
        self._life = life
        self._mirror = PatchSum()
        self._number = 0
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._listeners: set[BrowserStream] = set()

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def publish(self, patch: ViewPatch) -> None:
        """Send a patch to all browsers, and keep it for later ones."""
        self._mirror.apply(patch)
        self._number += 1
        frame = self._frame("patch", patch)
        self._kept.append((self._number, frame))
        for listener in self._listeners:
            listener.give(frame)

    @contextmanager
    def listening(self, last: str) -> Iterator[BrowserStream]:
        """Connect one more browser; `last` is the id of the last patch it received, if any. Raises TooMany."""
        if len(self._listeners) >= MOST_LISTENERS:
            raise TooMany(f"{MOST_LISTENERS} browsers are listening already")
        listener = BrowserStream()
        for frame in self._missed(last):
            listener.give(frame)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def snapshot(self) -> bytes:
        """Everything, as JSON."""
        return self._mirror.snapshot().as_json()

    def _missed(self, last: str) -> list[bytes]:
        life, _, number = last.rpartition(".")
        if life == self._life and number.isdecimal() and int(number) <= self._number:
            after = [frame for known, frame in self._kept if known > int(number)]
            if len(after) == self._number - int(number) <= MOST_BEHIND:
                return after
        return [self._frame("snapshot", self._mirror.snapshot())]

    def _frame(self, kind: str, patch: ViewPatch) -> bytes:
        return b"id: %s.%d\nevent: %s\ndata: %s\n\n" % (
            self._life.encode(),
            self._number,
            kind.encode(),
            patch.as_json(),
        )
