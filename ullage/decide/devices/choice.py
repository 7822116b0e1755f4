"""The devices chosen on one node: what goes into Leases and annotations."""

import msgspec

from ullage.model.device import MILLI_GPU


class Choice(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Exact devices, and how well they match what was asked."""

    ids: tuple[int, ...]
    """Ascending. With MIG, the device of each instance: one may appear twice."""
    islands: int
    """How many islands they are spread over."""
    satisfied: bool
    """Whether the topology the claim prefers holds; nodes where it does not rank lower."""
    share_milli: int = MILLI_GPU
    """What is taken of each device; nothing with MIG, where instances are."""
    instances: tuple[str, ...] = ()
    """UUIDs of MIG instances, in the order of `ids`."""
