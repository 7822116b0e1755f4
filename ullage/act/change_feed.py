"""Feed of changes of single objects, for actions that wait for one. Fed by the informers that run anyway.

No watch is opened here: however many actions wait, the API server is watched once per kind.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated

Followed = tuple[type[Any], ObjectKey]
"""Type of the fact, and key of its object."""


class Changes:
    """Changes observed on some objects since they are followed."""

    def __init__(self) -> None:
        self.latest: dict[Followed, Any] = {}
        """Latest fact of each changed object, None if it is gone. The waiting action removes entries it has read."""
        self._changed = asyncio.Event()

    async def next(self) -> None:
        """Wait until something has changed since the last call. Several changes of one object may appear as one."""
        await self._changed.wait()
        self._changed.clear()

    def put(self, followed: Followed, fact: Any) -> None:
        self.latest[followed] = fact
        self._changed.set()


class ChangeFeed:
    """Passes fact events on to actions that follow their objects. Every event of the informers goes to `observe`."""

    def __init__(self) -> None:
        self._followers: dict[Followed, dict[Changes, None]] = {}

    def observe(self, event: FactEvent[Any]) -> None:
        """Pass one event on. Cheap where no action waits."""
        match event:
            case Added(key=key, new=fact) | Updated(key=key, new=fact):
                self._pass_on((type(fact), key), fact)
            case Deleted(key=key, old=gone):
                self._pass_on((type(gone), key), None)

    @contextmanager
    def following(self, *objects: Followed) -> Iterator[Changes]:
        """Follow objects during the block. To be entered before the write whose effect is waited for."""
        changes = Changes()
        for one in objects:
            self._followers.setdefault(one, {})[changes] = None
        try:
            yield changes
        finally:
            for one in objects:
                del self._followers[one][changes]
                if not self._followers[one]:
                    del self._followers[one]

    def _pass_on(self, followed: Followed, fact: Any) -> None:
        for changes in self._followers.get(followed, ()):
            changes.put(followed, fact)
