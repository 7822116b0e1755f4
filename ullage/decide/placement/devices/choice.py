"""DeviceChoice: the devices chosen on one node, as written to Leases and annotations."""

import msgspec

from ullage.model.device import MILLI_GPU
from ullage.model.units import Milli


class DeviceChoice(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Exact devices, and how well they match the device request."""

    ids: tuple[int, ...]
    """Device ids, ascending. With MIG, the device of each instance: one may appear twice."""
    islands: int
    """Number of islands the devices belong to; with MIG, number of devices."""
    satisfied: bool
    """True if the topology the claim prefers holds. Nodes where it does not rank lower."""
    share_milli: Milli = MILLI_GPU
    """Thousandths taken of each device; 0 with MIG, where instances are taken."""
    instances: tuple[str, ...] = ()
    """UUIDs of MIG instances, in the order of `ids`."""
