"""Holders of GPUs, from their Leases, and the facts of a holding pod that decide on its hold."""

import msgspec

from ullage.model.device import MILLI_GPU
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant, Milli

LEASE_NAMESPACE = "ullage-system"
"""Default namespace of GPU Leases and of everything else that is installed: the one place it is written."""


class LeaseHold(msgspec.Struct, frozen=True, gc=False, order=True):
    """Part of one device that a pod holds: the whole, a share, or one MIG instance."""

    uid: str
    milli: Milli = MILLI_GPU
    """Thousandths of the device; 0 for a MIG instance, which is its holder's as a whole."""
    instance: str = ""
    """UUID of the MIG instance, where it is one."""

    @property
    def part(self) -> str:
        """Key of this hold, unique on its device: the MIG instance, or for whole devices and shares the holder."""
        return self.instance or self.uid


class GpuLease(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one GPU's Lease."""

    name: str
    node: str
    device: int
    holds: tuple[LeaseHold, ...]
    """One hold; or the shares, by uid; or the MIG instances, by UUID. Never an exclusive hold among others."""
    shared: bool
    renewed: Instant
    """Unix second of the last write for a holder, by the writer's clock."""
    resource_version: str
    pod: ObjectKey | None = None
    """Key of the holding pod; None on shared Leases, which do not say."""


class HolderPod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of a pod that decide whether it may go on holding a GPU."""

    key: ObjectKey
    uid: str
    resource_version: str
    node: str
    """Empty while it is pending."""
    over: bool
    """Succeeded or failed: the pod holds nothing any more."""
    devices: tuple[int, ...] | None
    """Devices its bound allocation names on its node; None where that cannot be read."""
    instances: tuple[str, ...] = ()
    """UUIDs of MIG instances, where it was given those and not the devices."""

    def was_given(self, device: int, instance: str = "") -> bool:
        """True if its bound allocation names this device, or this MIG instance of it."""
        if self.devices is None or device not in self.devices:
            return False
        return instance in self.instances if instance else not self.instances
