"""GpuClaim: the GPUs a pod asks for, and the allocation in the claim's status."""

from enum import StrEnum

import msgspec

from ullage.model.fact_event import ObjectKey
from ullage.model.units import Bytes, Instant

TEMPLATE = "gpu.scheduling/template"
"""Annotation of a claim that was made for one pod: the claim it is a copy of."""

_LONGEST_NAME = 253
_UID_SHOWN = 8

PROTECTION = "gpu.scheduling/claim-protection"
"""Finalizer of claims in use, as PersistentVolumeClaims have one."""


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


class DeviceRequest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """GPUs asked for. Hashable: it is part of a pod's shape."""

    count: int = 1
    policy: DevicePolicy = DevicePolicy.CONTIGUOUS
    prefer_ids: tuple[int, ...] = ()
    exclusivity: Exclusivity = Exclusivity.EXCLUSIVE
    model: str = ""
    memory: Bytes = Bytes(0)
    """Bytes of each GPU's memory: the least it must have, and for Shared and MIG the amount taken of it."""
    tflops: int = 0
    topology: TopologyMode = TopologyMode.PREFERRED
    min_bandwidth: int = 0
    """GB/s between the GPUs of the claim."""


class Claim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one GpuClaim."""

    key: ObjectKey
    uid: str
    generation: int
    ask: DeviceRequest
    node_labels: tuple[tuple[str, str], ...] = ()
    """Labels a node must have, sorted."""
    gang: str = ""
    gang_min_member: int = 0
    pool: str = ""
    template: str = ""
    """Claim this one is a copy of."""
    pod: str = ""
    """Name of the pod a copy was made for."""
    pod_uid: str = ""
    phase: ClaimPhase = ClaimPhase.PENDING
    """Phase. This field and those that follow are read from the status."""
    node: str = ""
    gpu_ids: tuple[int, ...] = ()
    word: str = ""
    """Reason of the phase, one word. Empty where the status was never written, or contradicts itself."""
    message: str = ""
    observed: int = 0
    """Generation the status is about."""
    since: Instant = Instant(0.0)
    """Unix second at which the claim began or ceased to hold GPUs."""
    opaque: bool = False
    """The status says more than these fields, so it has to be read before it is written."""
    resource_version: str = ""
    """Version of the claim these facts were read from."""
    deleting: bool = False
    """The claim is being deleted: no further pod is placed by it."""
    finalizers: tuple[str, ...] = ()

    @property
    def protected(self) -> bool:
        """True if the claim outlives its deletion until no pod uses it."""
        return PROTECTION in self.finalizers


class ClaimInUse(msgspec.Struct, frozen=True, gc=False):
    """Claim by which a pod is placed, as it was when that was decided."""

    key: ObjectKey
    uid: str
    protected: bool
    """True if it outlives its deletion until no pod uses it."""


def copy_key(pod: ObjectKey, uid: str) -> ObjectKey:
    """Key of the copy of a template made for this pod: `train-0-5f3c9a1e`."""
    tail = f"-{uid[:_UID_SHOWN]}"
    kept = pod.name[: _LONGEST_NAME - len(tail)].rstrip("-.")
    return ObjectKey(pod.namespace, f"{kept}{tail}")
