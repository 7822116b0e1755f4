"""GPUs as placement sees them: identity, health, and NVLink islands."""

from enum import StrEnum

import msgspec

from ullage.model.units import Bytes, Instant, Milli, Seconds

MILLI_GPU = Milli(1000)
"""Whole device, in the unit of shares."""

KIND_LABEL = "gpu.scheduling/node-kind"
"""Label of a node: its GpuNodeKind in lower case. Its agent sets it."""

MOST_DEVICES = 16
"""Largest number of GPUs of a node: claims above it can never be satisfied, and masks fit in 16 bits."""


class DeviceHealth(StrEnum):
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"


class GpuNodeKind(StrEnum):
    """Chooser of a node's GPUs."""

    LEASED = "Leased"
    """Ullage chooses exact GPUs and leases them."""
    COUNTED = "Counted"
    """A device plugin chooses: Ullage places by count and reads back the choice."""
    DRA = "DRA"
    """kube-scheduler chooses, by ResourceClaims: Ullage places no pod with GPUs there."""


class MigInstance(msgspec.Struct, frozen=True, gc=False):
    """One MIG instance on a device."""

    uuid: str
    profile: str
    memory: Bytes
    """Bytes."""


class Device(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One GPU. `island` names its NVLink group; empty where it has none."""

    id: int
    uuid: str
    model: str
    memory: Bytes
    """Bytes."""
    health: DeviceHealth = DeviceHealth.HEALTHY
    island: str = ""
    bandwidth: int = 0
    """GB/s to its peers in the island."""
    peers: tuple[int, ...] = ()
    in_use_by: tuple[str, ...] = ()
    """UIDs of pods whose processes were observed on it."""
    mig: tuple[MigInstance, ...] = ()


class Inventory(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """GPUs of a node as its agent reports them, with the time of the report."""

    node: str
    reported_at: Instant
    """Time of the report: by our clock where it was observed to change, else by the agent's (`observed_inventory`)."""
    devices: tuple[Device, ...]
    kind: GpuNodeKind = GpuNodeKind.LEASED
    dated: Instant = Instant(0.0)
    """Time of the report, by the agent's clock."""
    clock_ahead: Seconds = Seconds(0.0)
    """Seconds the agent's clock was ahead of ours when its last report was observed; 0 where that is not known."""


NEVER_OLD = 253_402_300_799.0
"""9999-12-31T23:59:59Z: date of a report that need not be repeated, as of simulated agents without heartbeats."""


def observed_inventory(old: Inventory | None, new: Inventory, now: Instant) -> Inventory:
    """Report as observed at this moment, after `old`: its age counts by our clock, whatever its agent's says.

    A report observed for the first time may be of any age: its agent's date is believed, but never one in the future.
    """
    if new.dated >= NEVER_OLD:
        return new
    if old is None:
        return msgspec.structs.replace(new, reported_at=min(new.dated, now))
    if new.dated == old.dated:
        return msgspec.structs.replace(new, reported_at=old.reported_at, clock_ahead=old.clock_ahead)
    return msgspec.structs.replace(new, reported_at=now, clock_ahead=new.dated - now)
