"""What a pod asks of GPUs, as a GpuClaim says it, and what the claim's status says has become of it."""

from enum import StrEnum

import msgspec

from ullage.model.event import ObjectKey

TEMPLATE = "gpu.scheduling/template"
"""On a claim that was made for one pod: the claim it is a copy of."""

_LONGEST_NAME = 253
_UID_SHOWN = 8


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
    template: str = ""
    """The claim this one is a copy of."""
    pod: str = ""
    """The one pod a copy was made for, by name."""
    pod_uid: str = ""
    phase: ClaimPhase = ClaimPhase.PENDING
    """From here on: what its status says."""
    node: str = ""
    gpu_ids: tuple[int, ...] = ()
    word: str = ""
    """Why it is in this phase. Empty where the status was never written, or contradicts itself."""
    message: str = ""
    observed: int = 0
    """The generation the status is about."""
    since: float = 0.0
    """When it began or ceased to hold GPUs."""
    opaque: bool = False
    """The status says more than these fields, so it has to be read before it is written."""
    resource_version: str = ""
    """The state of the claim these facts were read from."""


def copy_key(pod: ObjectKey, uid: str) -> ObjectKey:
    """Where the copy of a template is that is made for this very pod: `train-0-5f3c9a1e`."""
    tail = f"-{uid[:_UID_SHOWN]}"
    kept = pod.name[: _LONGEST_NAME - len(tail)].rstrip("-.")
    return ObjectKey(pod.namespace, f"{kept}{tail}")
