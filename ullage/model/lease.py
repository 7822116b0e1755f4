"""Who holds which GPU, as its Lease says; and the pod behind a hold, as far as holding goes."""

import msgspec

from ullage.model.device import MILLI_GPU
from ullage.model.event import ObjectKey


class Hold(msgspec.Struct, frozen=True, gc=False):
    """A pod's part of one device: the whole of it, or a share."""

    uid: str
    milli: int = MILLI_GPU


class GpuLease(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one GPU's Lease."""

    name: str
    node: str
    device: int
    holds: tuple[Hold, ...]
    """One, or the shares, by uid. Never an exclusive hold among others."""
    shared: bool
    renewed: float
    """When it was last written for a holder, by the writer's clock."""
    resource_version: str
    pod: ObjectKey | None = None
    """Where the holder is found; shared Leases do not say."""


class HolderPod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What of a pod decides whether it may go on holding a GPU."""

    key: ObjectKey
    uid: str
    resource_version: str
    node: str
    """Empty while it is pending."""
    over: bool
    """Succeeded or failed: it holds nothing any more."""
    devices: tuple[int, ...] | None
    """What its bound allocation names on its node; None where that cannot be read."""
