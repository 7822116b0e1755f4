"""Whoever can look at GPUs: the driver's, or simulated ones."""

from collections.abc import Callable
from typing import Protocol

from ullage.decide.inventory.sights import Look

OnXid = Callable[[str, int], None]
"""Told the UUID of the GPU and the Xid."""


class GpuReader(Protocol):
    """Sees all GPUs of this node. Never raises for what a GPU or a driver does: that is part of what is seen."""

    async def look(self, *, thorough: bool) -> Look:
        """Everything that changes; if `thorough`, also models, links and MIG instances. Answers within seconds."""
        ...

    def listen(self, on_xid: OnXid) -> None:
        """Tell each Xid as it is heard, in the running loop, until closed."""
        ...

    async def close(self) -> None:
        """Let go of the driver. Idempotent."""
        ...
