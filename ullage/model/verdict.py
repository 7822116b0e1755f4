"""Reasons a pod does not fit on a node: the closed list, and the kinds of changes that can cure one.

The same word labels the metric, the Event, `explain` and the dashboard. Every Reason but FITS has one ReasonInfo, with
its cure, advice and words, beside the rule that gives it (`decide.placement.reasons` gathers them).
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Reason(StrEnum):
    """Reason of a verdict. Listed in the order of the rules; the first rule that refuses gives the reason."""

    FITS = "Fits"
    NOT_THE_NODE_NAMED = "NotTheNodeNamed"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    NODE_STARTING = "NodeStarting"
    NODE_NOT_READY = "NodeNotReady"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    NODE_SELECTOR_MISMATCH = "NodeSelectorMismatch"
    HOST_PORT_TAKEN = "HostPortTaken"
    NODE_TOO_SMALL = "NodeTooSmall"
    TOO_MANY_PODS = "TooManyPods"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    UNBOUNDED_CONTAINER = "UnboundedContainer"
    VM_INSUFFICIENT_ROOM = "VmInsufficientRoom"
    VOLUME_NOT_READY = "VolumeNotReady"
    VOLUME_ELSEWHERE = "VolumeElsewhere"
    VOLUME_IN_USE = "VolumeInUse"
    SPREAD_KEY_MISSING = "SpreadKeyMissing"
    SPREAD_TOO_UNEVEN = "SpreadTooUneven"
    POD_AFFINITY_UNMET = "PodAffinityUnmet"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    EXISTING_ANTI_AFFINITY = "ExistingAntiAffinity"
    NO_GPUS = "NoGpus"
    INVENTORY_MISSING = "InventoryMissing"
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
    VM_MISSING = "VmMissing"
    VM_AMOUNTS_INVALID = "VmAmountsInvalid"
    VM_SLOT_SIZE_MISMATCH = "VmSlotSizeMismatch"
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
    VM_CHANGED = "VmChanged"
    """A VirtualMachine or its approval changed, or the configuration of VM nodes."""
    GANG_CHANGED = "GangChanged"
    """A member was created, or the gang's size changed."""


class CuredBy(IntEnum):
    """Change that lets a node take the pod, the nearest first.

    A node is as far from taking a pod as the worst of its reasons; the nodes that are nearest say why the pod waits.
    """

    TIME = 0
    """The node finishes starting."""
    LIMIT = 1
    """A quota is raised, or pods of the namespace end. Named only where nothing else is in the way."""
    ROOM = 2
    """Pods leave."""
    REPAIR = 3
    """Somebody mends the node or opens it."""
    REQUEST = 4
    """The pod asks for something else of the nodes that it means."""
    CHOICE = 5
    """The pod chooses other nodes: these are not meant."""
    OTHER_NODES = 6
    """There are nodes of another kind: none of these could ever take the pod."""


@dataclass(frozen=True, slots=True)
class Cure:
    """Changes that could turn a refusal into a fit."""

    fewer_pods: bool
    """Taking pods off this node could help: preemption may consider it."""
    another_node: bool
    """An empty node like this one could help: provisioning may consider it."""
    wakes_on: frozenset[ClusterEvent]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer of one node: a reason, with its detail for people."""

    reason: Reason
    detail: str = ""

    def __bool__(self) -> bool:
        return self.reason is Reason.FITS
