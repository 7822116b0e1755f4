"""Records of draining: controllers of pods, reasons a node stays or goes.

The fields of a pod that draining uses are in `model.pod_marks`. Amounts of time are seconds.
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.units import Instant

CANDIDATE_TAINT = "gpu.scheduling/drain-candidate"
"""Taint PreferNoSchedule. Its value is the Unix second since which the node is a candidate."""
DRAINING_TAINT = "gpu.scheduling/draining"
"""Taint NoSchedule. Its value is the Unix second at which removing the node began."""


class WorkloadReplicas(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Controller that recreates pods: its target number, and the current number by its own count.

    The controller's count lags as far as the controller manager does. Code that needs the true number counts pods.
    """

    uid: str
    kind: str
    target: int
    current: int
    template: Pod | None = None
    """Pod as the controller would make it, on no node. None where none is wanted or the template cannot be read."""


class RecentEviction(msgspec.Struct, frozen=True, kw_only=True):
    """Pod that was evicted recently."""

    pod: Pod
    """The pod as it was before its eviction."""
    at: Instant


class UnremovableReason(StrEnum):
    """Reason a node is not removed. Closed list: it labels the metric."""

    BEING_REMOVED = "BeingRemoved"
    NOT_A_CANDIDATE = "NotACandidate"
    SCALE_DOWN_DISABLED = "ScaleDownDisabled"
    FAILED_LATELY = "RemovalFailedLately"
    UNREADY_STAYS = "UnreadyNodesStay"
    TOO_MUCH_USED = "NotUnderutilized"
    POOL_MINIMUM = "PoolMinimumReached"
    CLUSTER_MINIMUM = "ClusterMinimumReached"
    DESTINATION = "DestinationOfOthers"
    CONTROLLER_NOT_FOUND = "ControllerNotFound"
    """This reason and the following ones, before NO_PLACE: a pod on the node must not be moved."""
    TOO_FEW_REPLICAS = "TooFewReplicas"
    NOT_REPLICATED = "NotReplicated"
    SYSTEM_POD = "SystemPod"
    NOT_SAFE_TO_EVICT = "NotSafeToEvict"
    LOCAL_STORAGE = "LocalStorage"
    VM_NOT_MIGRATABLE = "VmNotMigratable"
    """The pod runs a VM that may be neither migrated nor evicted."""
    VM_NOT_NOW = "VmNotMigratedNow"
    """The pod's VM may be migrated, and not now: it rests, it is just coming, or its approval is not known."""
    NOT_ENOUGH_PDB = "NotEnoughPdb"
    SEVERAL_PDBS = "SeveralPdbs"
    GANG_STAYS = "GangStays"
    NO_PLACE = "NoPlaceToMovePods"
    """Pods may move, and one of them would have no place."""
    DRAINED_PODS_UNPLACED = "DrainedPodsHaveNoPlace"
    """Pods of nodes under removal have no place; those come first."""
    EVICTED_PODS_UNPLACED = "EvictedPodsHaveNoPlace"
    NOT_REACHED = "NotReached"
    """The time of the planning round was up."""
    CANDIDATE_LIMIT = "EnoughCandidates"
    WAITS_FOR_COMPLETION = "WaitsForCompletion"
    """This reason and the following ones: the node is a candidate, and not removed yet."""
    NOT_LONG_ENOUGH = "NotUnneededLongEnough"
    NOT_UNREADY_LONG_ENOUGH = "NotUnreadyLongEnough"
    THROTTLED = "ScaleDownThrottled"


PASSING = frozenset(
    {
        UnremovableReason.NOT_REACHED,
        UnremovableReason.NOT_ENOUGH_PDB,
        UnremovableReason.VM_NOT_NOW,
        UnremovableReason.DRAINED_PODS_UNPLACED,
        UnremovableReason.EVICTED_PODS_UNPLACED,
    }
)
"""Reasons that do not make a node needed; it only cannot be removed now. With them it keeps its timer."""


class ScaleDownReason(StrEnum):
    """Reason a node is removed. Closed list: it labels the metric."""

    EMPTY = "Empty"
    UNDERUTILIZED = "Underutilized"
    UNREADY = "Unready"


class PodMove(msgspec.Struct, frozen=True, gc=False):
    """Pod that has to leave, and the node it would fit on."""

    pod: ObjectKey
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovableNode:
    """Node that can be removed together with all other removable ones."""

    node: str
    reason: ScaleDownReason
    moves: tuple[PodMove, ...] = ()
    """All pods that have to leave, including members of a gang on other nodes. Empty where the node is empty."""
    waits_for: tuple[ObjectKey, ...] = ()
    """Pods that must finish first."""

    @property
    def empty(self) -> bool:
        return not self.moves and not self.waits_for


@dataclass(frozen=True, slots=True, kw_only=True)
class UnremovableNode:
    """Node that stays, and the first reason against removing it."""

    node: str
    reason: UnremovableReason
    pod: ObjectKey | None = None
    detail: str = ""
