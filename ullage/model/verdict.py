"""Why a pod may not go on a node: the closed list, and what could change each answer.

The same word labels the metric, the Event, `explain` and the dashboard. A new reason is one line in `REASONS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """In the order the rules are asked; the first that refuses is the reason."""

    FITS = "Fits"
    NOT_THE_NODE_NAMED = "NotTheNodeNamed"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    NODE_NOT_READY = "NodeNotReady"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    NODE_SELECTOR_MISMATCH = "NodeSelectorMismatch"
    HOST_PORT_TAKEN = "HostPortTaken"
    NODE_TOO_SMALL = "NodeTooSmall"
    TOO_MANY_PODS = "TooManyPods"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    VOLUME_NOT_READY = "VolumeNotReady"
    VOLUME_ELSEWHERE = "VolumeElsewhere"
    VOLUME_IN_USE = "VolumeInUse"
    SPREAD_KEY_MISSING = "SpreadKeyMissing"
    SPREAD_TOO_UNEVEN = "SpreadTooUneven"
    POD_AFFINITY_UNMET = "PodAffinityUnmet"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    EXISTING_ANTI_AFFINITY = "ExistingAntiAffinity"
    NO_GPUS = "NoGpus"
    INVENTORY_STALE = "InventoryStale"
    GPU_MODEL_MISMATCH = "GpuModelMismatch"
    GPU_MEMORY_TOO_SMALL = "GpuMemoryTooSmall"
    GPUS_UNHEALTHY = "GpusUnhealthy"
    TOO_FEW_GPUS = "TooFewGpus"
    PREFERRED_GPUS_TAKEN = "PreferredGpusTaken"
    NO_ROOM_FOR_SHARE = "NoRoomForShare"
    NO_MIG_INSTANCE = "NoMigInstance"
    NO_ISLAND_LARGE_ENOUGH = "NoIslandLargeEnough"
    BANDWIDTH_TOO_LOW = "BandwidthTooLow"
    SCHEDULING_GATED = "SchedulingGated"
    """From here on reasons are about the pod itself: they hold on every node."""
    RESOURCE_CLAIMS = "ResourceClaims"
    """Kubernetes' own device allocation is kube-scheduler's to do."""
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_INVALID = "ClaimInvalid"
    CLAIM_IN_USE = "ClaimInUse"
    """A claim belongs to one pod, and another one has it."""
    GANG_SIZE_UNKNOWN = "GangSizeUnknown"
    QUOTA_EXCEEDED = "QuotaExceeded"
    GANG_INCOMPLETE = "GangIncomplete"
    """Fewer members are there than the gang needs."""


class Wake(StrEnum):
    """Kinds of news that can change a refusal."""

    NODE_APPEARED = "NodeAppeared"
    NODE_CHANGED = "NodeChanged"
    POD_LEFT = "PodLeft"
    POD_ARRIVED = "PodArrived"
    VOLUME_CHANGED = "VolumeChanged"
    INVENTORY_CHANGED = "InventoryChanged"
    CLAIM_CHANGED = "ClaimChanged"
    QUOTA_CHANGED = "QuotaChanged"
    GANG_CHANGED = "GangChanged"
    """A member was made, or the gang's size changed."""


@dataclass(frozen=True, slots=True)
class Cure:
    """What could turn a refusal into a fit."""

    fewer_pods: bool
    """Taking pods off this node could help: preemption may look here."""
    another_node: bool
    """A node like this one, but empty, could help: provisioning may look here."""
    wakes_on: frozenset[Wake]


def _cure(*wakes: Wake, fewer_pods: bool = False, another_node: bool = False) -> Cure:
    return Cure(fewer_pods, another_node, frozenset({Wake.NODE_APPEARED, *wakes}))


_NODE = _cure(Wake.NODE_CHANGED)
_FULL = _cure(Wake.NODE_CHANGED, Wake.POD_LEFT, fewer_pods=True, another_node=True)
_VOLUME = _cure(Wake.NODE_CHANGED, Wake.VOLUME_CHANGED)
_GPUS_FULL = _cure(Wake.POD_LEFT, Wake.INVENTORY_CHANGED, fewer_pods=True, another_node=True)
_GPUS_WRONG = _cure(Wake.INVENTORY_CHANGED)
_PODS = _cure(Wake.NODE_CHANGED, Wake.POD_LEFT, Wake.POD_ARRIVED, fewer_pods=True, another_node=True)

CURES: Mapping[Reason, Cure] = {
    Reason.NOT_THE_NODE_NAMED: _NODE,
    Reason.NODE_UNSCHEDULABLE: _NODE,
    Reason.NODE_NOT_READY: _NODE,
    Reason.TAINT_NOT_TOLERATED: _NODE,
    Reason.NODE_SELECTOR_MISMATCH: _NODE,
    Reason.HOST_PORT_TAKEN: _FULL,
    Reason.TOO_MANY_PODS: _FULL,
    Reason.NODE_TOO_SMALL: _NODE,
    Reason.INSUFFICIENT_RESOURCES: _FULL,
    Reason.VOLUME_NOT_READY: _VOLUME,
    Reason.VOLUME_ELSEWHERE: _VOLUME,
    Reason.VOLUME_IN_USE: _cure(Wake.POD_LEFT, Wake.VOLUME_CHANGED, fewer_pods=True),
    Reason.SPREAD_KEY_MISSING: _NODE,
    Reason.SPREAD_TOO_UNEVEN: _PODS,
    Reason.POD_AFFINITY_UNMET: _cure(Wake.NODE_CHANGED, Wake.POD_ARRIVED),
    Reason.POD_ANTI_AFFINITY: _PODS,
    Reason.EXISTING_ANTI_AFFINITY: _PODS,
    Reason.NO_GPUS: _cure(Wake.NODE_CHANGED, Wake.INVENTORY_CHANGED),
    Reason.INVENTORY_STALE: _GPUS_WRONG,
    Reason.GPU_MODEL_MISMATCH: _GPUS_WRONG,
    Reason.GPU_MEMORY_TOO_SMALL: _GPUS_WRONG,
    Reason.GPUS_UNHEALTHY: _GPUS_WRONG,
    Reason.TOO_FEW_GPUS: _GPUS_FULL,
    Reason.PREFERRED_GPUS_TAKEN: _GPUS_FULL,
    Reason.NO_ROOM_FOR_SHARE: _GPUS_FULL,
    Reason.NO_MIG_INSTANCE: _GPUS_FULL,
    Reason.NO_ISLAND_LARGE_ENOUGH: _GPUS_FULL,
    Reason.BANDWIDTH_TOO_LOW: _GPUS_FULL,
    # No node helps against these: neither one that comes nor one that is emptied.
    Reason.SCHEDULING_GATED: Cure(False, False, frozenset()),
    Reason.RESOURCE_CLAIMS: Cure(False, False, frozenset()),
    Reason.CLAIM_MISSING: Cure(False, False, frozenset({Wake.CLAIM_CHANGED})),
    Reason.CLAIM_INVALID: Cure(False, False, frozenset({Wake.CLAIM_CHANGED})),
    Reason.CLAIM_IN_USE: Cure(False, False, frozenset({Wake.CLAIM_CHANGED, Wake.POD_LEFT})),
    Reason.GANG_SIZE_UNKNOWN: Cure(False, False, frozenset({Wake.CLAIM_CHANGED, Wake.GANG_CHANGED})),
    Reason.QUOTA_EXCEEDED: Cure(False, False, frozenset({Wake.POD_LEFT, Wake.QUOTA_CHANGED})),
    Reason.GANG_INCOMPLETE: Cure(False, False, frozenset({Wake.GANG_CHANGED})),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reason with what a person would want to know of it."""

    reason: Reason
    detail: str = ""

    def __bool__(self) -> bool:
        return self.reason is Reason.FITS
