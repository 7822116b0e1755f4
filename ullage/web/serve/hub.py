"""Patches to every browser that listens: each once, in order, from where it was. Who cannot keep up is let go.

Lives in one loop. A browser that comes back says the last patch it heard; if those after it are still kept it gets
them, else everything.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from ullage.web.view.patch import Mirror, Patch

KEPT = 240
"""Patches a browser may have missed and still go on: about a minute."""
MOST_BEHIND = 40
"""Patches that wait for one browser. One that is further behind is let go, and comes back when it can."""
MOST_LISTENERS = 64


class TooMany(Exception):
    """As many listen as may."""


class Listener:
    """One browser: patches that wait to be written to it."""

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
        """It did not take what it was given. What it has not got, it gets when it comes back."""
        return self._left_behind

    async def frames(self, quiet: float) -> AsyncIterator[bytes]:
        """What to write, until it is left behind. A comment after so many quiet seconds, lest proxies hang up."""
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


class Hub:
    """The sum of all patches, the last of them, and who listens. `life` tells this run from others."""

    def __init__(self, life: str) -> None:
        self._life = life
        self._mirror = Mirror()
        self._number = 0
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._listeners: set[Listener] = set()

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def publish(self, patch: Patch) -> None:
        """To all, and to those who come later."""
        self._mirror.apply(patch)
        self._number += 1
        frame = self._frame("patch", patch)
        self._kept.append((self._number, frame))
        for listener in self._listeners:
            listener.give(frame)

    @contextmanager
    def listening(self, last: str) -> Iterator[Listener]:
        """One more browser; `last` is the id it heard last, if any. Raises TooMany."""
        if len(self._listeners) >= MOST_LISTENERS:
            raise TooMany(f"{MOST_LISTENERS} browsers are listening already")
        listener = Listener()
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

    def _frame(self, kind: str, patch: Patch) -> bytes:
        return b"id: %s.%d\nevent: %s\ndata: %s\n\n" % (
            self._life.encode(),
            self._number,
            kind.encode(),
            patch.as_json(),
        )
