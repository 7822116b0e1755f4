"""What still stands between us and callers, by name; ready when nothing does."""

import asyncio
from collections.abc import Mapping

from ullage.observe.serve import Check


class Readiness:
    """Everything is in the way until it is said to be well."""

    def __init__(self, *names: str) -> None:
        self._troubles = dict.fromkeys(names, "not yet")
        self._ready = asyncio.Event()

    def say(self, name: str, trouble: str = "") -> None:
        """What is wrong with it now; nothing if all is well."""
        if name not in self._troubles:
            raise KeyError(name)
        self._troubles[name] = trouble
        if any(self._troubles.values()):
            self._ready.clear()
        else:
            self._ready.set()

    async def wait(self) -> None:
        """Until all is well."""
        await self._ready.wait()

    @property
    def checks(self) -> Mapping[str, Check]:
        """For the probe."""
        return {name: lambda name=name: self._troubles[name] for name in self._troubles}  # type: ignore[misc]
