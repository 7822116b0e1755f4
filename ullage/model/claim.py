"""What a pod asks of GPUs, as a GpuClaim says it."""

from enum import StrEnum

import msgspec

from ullage.model.event import ObjectKey


class DevicePolicy(StrEnum):
    CONTIGUOUS = "contiguous"
    SPREAD = "spread"
    PREFER_IDS = "preferIds"


class Exclusivity(StrEnum):
    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    MIG = "MIG"


class TopologyMode(StrEnum):
    REQUIRED = "Required"
    PREFERRED = "Preferred"
    IGNORE = "Ignore"


class ClaimPhase(StrEnum):
    PENDING = "Pending"
    RESERVED = "Reserved"
    BOUND = "Bound"
    FAILED = "Failed"


class DeviceAsk(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Which GPUs would do. Hashable: it is part of a pod's shape."""

    count: int = 1
    policy: DevicePolicy = DevicePolicy.CONTIGUOUS
    prefer_ids: tuple[int, ...] = ()
    exclusivity: Exclusivity = Exclusivity.EXCLUSIVE
    model: str = ""
    memory: int = 0
    """Bytes of each GPU's memory: the least it must have, and for Shared and MIG what is taken of it."""
    tflops: int = 0
    topology: TopologyMode = TopologyMode.PREFERRED
    min_bandwidth: int = 0
    """GB/s between the GPUs of the claim."""


class Claim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one GpuClaim."""

    key: ObjectKey
    uid: str
    generation: int
    ask: DeviceAsk
    node_labels: tuple[tuple[str, str], ...] = ()
    """Labels a node must have, sorted."""
    gang: str = ""
    gang_min_member: int = 0
    pool: str = ""
    phase: ClaimPhase = ClaimPhase.PENDING
    node: str = ""
    gpu_ids: tuple[int, ...] = ()
