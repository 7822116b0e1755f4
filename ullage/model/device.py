"""GPUs as placement sees them: identity, health, and which of them are wired together."""

from enum import StrEnum

import msgspec

MILLI_GPU = 1000
"""A whole device, in the unit shares are counted in."""

KIND_LABEL = "gpu.scheduling/node-kind"
"""On a node: who chooses its GPUs, in lower case. Its agent sets it."""

MOST_DEVICES = 16
"""No node has more: claims above it can never be satisfied, and masks fit in 16 bits."""


class Health(StrEnum):
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"


class GpuNodeKind(StrEnum):
    """Who chooses the GPUs on a node."""

    LEASED = "Leased"
    """We do: exact GPUs are ours to give."""
    COUNTED = "Counted"
    """A device plugin does: we place by count and read back what it chose."""


class MigSlice(msgspec.Struct, frozen=True, gc=False):
    """One MIG instance on a device."""

    uuid: str
    profile: str
    memory: int
    """Bytes."""


class Device(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One GPU. `island` names the NVLink group it belongs to; an empty one means it stands alone."""

    id: int
    uuid: str
    model: str
    memory: int
    """Bytes."""
    health: Health = Health.HEALTHY
    island: str = ""
    bandwidth: int = 0
    """GB/s to its peers in the island."""
    peers: tuple[int, ...] = ()
    in_use_by: tuple[str, ...] = ()
    """UIDs of pods whose processes were seen on it."""
    mig: tuple[MigSlice, ...] = ()


class Inventory(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a node's agent says it has, and when it said so."""

    node: str
    reported_at: float
    devices: tuple[Device, ...]
    kind: GpuNodeKind = GpuNodeKind.LEASED
