"""GpuReader: the interface to the GPUs of a node, real (NVML) or simulated."""

from collections.abc import Callable
from typing import Protocol

from ullage.decide.inventory.gpu_readings import GpuScan

OnXid = Callable[[str, int], None]
"""Called with the UUID of the GPU and the Xid."""


class GpuReader(Protocol):
    """Reads all GPUs of this node. Never raises for what a GPU or a driver does: errors are part of the scan."""

    async def look(self, *, thorough: bool) -> GpuScan:
        """Scan everything that changes; if `thorough`, also models, links and MIG instances. Answers within seconds."""
        ...

    def listen(self, on_xid: OnXid) -> None:
        """Report each Xid as it is heard, in the running loop, until closed."""
        ...

    async def close(self) -> None:
        """Release the driver. Idempotent."""
        ...
