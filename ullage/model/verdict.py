"""Reasons a pod does not fit on a node: the closed list, and the changes that could cure each.

The same word labels the metric, the Event, `explain` and the dashboard. Every Reason but FITS has its Cure in `CURES`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Reason of a verdict. Listed in the order of the rules; the first rule that refuses gives the reason."""

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
    """This reason and the following ones are about the pod itself: they hold on every node."""
    RESOURCE_CLAIMS = "ResourceClaims"
    """Dynamic Resource Allocation is kube-scheduler's to do."""
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_INVALID = "ClaimInvalid"
    CLAIM_IN_USE = "ClaimInUse"
    """A claim belongs to one pod, and another one has it."""
    GANG_SIZE_UNKNOWN = "GangSizeUnknown"
    QUOTA_EXCEEDED = "QuotaExceeded"
    GANG_INCOMPLETE = "GangIncomplete"
    """Fewer members exist than the gang needs."""


class ClusterEvent(StrEnum):
    """Kinds of changes that can make a refused pod schedulable."""

    NODE_APPEARED = "NodeAppeared"
    NODE_CHANGED = "NodeChanged"
    POD_LEFT = "PodLeft"
    POD_ARRIVED = "PodArrived"
    VOLUME_CHANGED = "VolumeChanged"
    INVENTORY_CHANGED = "InventoryChanged"
    CLAIM_CHANGED = "ClaimChanged"
    QUOTA_CHANGED = "QuotaChanged"
    GANG_CHANGED = "GangChanged"
    """A member was created, or the gang's size changed."""


@dataclass(frozen=True, slots=True)
class Cure:
    """Changes that could turn a refusal into a fit."""

    fewer_pods: bool
    """Taking pods off this node could help: preemption may consider it."""
    another_node: bool
    """An empty node like this one could help: provisioning may consider it."""
    wakes_on: frozenset[ClusterEvent]


def _cure(*wakes: ClusterEvent, fewer_pods: bool = False, another_node: bool = False) -> Cure:
    return Cure(fewer_pods, another_node, frozenset({ClusterEvent.NODE_APPEARED, *wakes}))


_NODE = _cure(ClusterEvent.NODE_CHANGED)
_FULL = _cure(ClusterEvent.NODE_CHANGED, ClusterEvent.POD_LEFT, fewer_pods=True, another_node=True)
_VOLUME = _cure(ClusterEvent.NODE_CHANGED, ClusterEvent.VOLUME_CHANGED)
_GPUS_FULL = _cure(ClusterEvent.POD_LEFT, ClusterEvent.INVENTORY_CHANGED, fewer_pods=True, another_node=True)
_GPUS_WRONG = _cure(ClusterEvent.INVENTORY_CHANGED)
_PODS = _cure(
    ClusterEvent.NODE_CHANGED, ClusterEvent.POD_LEFT, ClusterEvent.POD_ARRIVED, fewer_pods=True, another_node=True
)

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
    Reason.VOLUME_IN_USE: _cure(ClusterEvent.POD_LEFT, ClusterEvent.VOLUME_CHANGED, fewer_pods=True),
    Reason.SPREAD_KEY_MISSING: _NODE,
    Reason.SPREAD_TOO_UNEVEN: _PODS,
    Reason.POD_AFFINITY_UNMET: _cure(ClusterEvent.NODE_CHANGED, ClusterEvent.POD_ARRIVED),
    Reason.POD_ANTI_AFFINITY: _PODS,
    Reason.EXISTING_ANTI_AFFINITY: _PODS,
    Reason.NO_GPUS: _cure(ClusterEvent.NODE_CHANGED, ClusterEvent.INVENTORY_CHANGED),
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
    # No node cures these: neither a new one nor an emptied one.
    Reason.SCHEDULING_GATED: Cure(False, False, frozenset()),
    Reason.RESOURCE_CLAIMS: Cure(False, False, frozenset()),
    Reason.CLAIM_MISSING: Cure(False, False, frozenset({ClusterEvent.CLAIM_CHANGED})),
    Reason.CLAIM_INVALID: Cure(False, False, frozenset({ClusterEvent.CLAIM_CHANGED})),
    Reason.CLAIM_IN_USE: Cure(False, False, frozenset({ClusterEvent.CLAIM_CHANGED, ClusterEvent.POD_LEFT})),
    Reason.GANG_SIZE_UNKNOWN: Cure(False, False, frozenset({ClusterEvent.CLAIM_CHANGED, ClusterEvent.GANG_CHANGED})),
    Reason.QUOTA_EXCEEDED: Cure(False, False, frozenset({ClusterEvent.POD_LEFT, ClusterEvent.QUOTA_CHANGED})),
    Reason.GANG_INCOMPLETE: Cure(False, False, frozenset({ClusterEvent.GANG_CHANGED})),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer of one node: a reason, with its detail for people."""

    reason: Reason
    detail: str = ""

    def __bool__(self) -> bool:
        return self.reason is Reason.FITS
