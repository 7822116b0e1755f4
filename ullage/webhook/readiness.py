"""Readiness checks by name; the webhook is ready when none has trouble."""

import asyncio
from collections.abc import Mapping

from ullage.observe.probes import Check


class Readiness:
    """Every check counts as failed until it is reported well."""

    def __init__(self, *names: str) -> None:
        self._troubles = dict.fromkeys(names, "not yet")
        self._ready = asyncio.Event()

    def say(self, name: str, trouble: str = "") -> None:
        """Record a check's trouble; empty if the check passes."""
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
