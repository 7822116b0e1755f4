"""Draining in nouns: owners of pods, why a node stays or goes, what is to be done.

What draining looks at in a pod is in `model.pod_marks`. Amounts of time are seconds.
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from ullage.model.event import ObjectKey
from ullage.model.pod import Pod

CANDIDATE_TAINT = "gpu.scheduling/drain-candidate"
"""PreferNoSchedule; its value is the Unix second since which the node is a candidate."""
DRAINING_TAINT = "gpu.scheduling/draining"
"""NoSchedule; its value is the Unix second at which removing the node began."""


class Workload(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A controller that makes pods again: how many there are to be, and how many there are."""

    uid: str
    kind: str
    target: int
    current: int


class RecentEviction(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was evicted not long ago."""

    pod: Pod
    """As it was."""
    at: float


class WhyStays(StrEnum):
    """Why a node is not removed. The closed list: it labels the metric."""

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
    """From here on: a pod on it must not be moved."""
    TOO_FEW_REPLICAS = "TooFewReplicas"
    NOT_REPLICATED = "NotReplicated"
    SYSTEM_POD = "SystemPod"
    NOT_SAFE_TO_EVICT = "NotSafeToEvict"
    LOCAL_STORAGE = "LocalStorage"
    NOT_ENOUGH_PDB = "NotEnoughPdb"
    SEVERAL_PDBS = "SeveralPdbs"
    GANG_STAYS = "GangStays"
    NO_PLACE = "NoPlaceToMovePods"
    """Pods may move, and one would have no place."""
    DRAINED_PODS_UNPLACED = "DrainedPodsHaveNoPlace"
    """Pods of nodes that are being removed come first."""
    EVICTED_PODS_UNPLACED = "EvictedPodsHaveNoPlace"
    NOT_REACHED = "NotReached"
    """Time was up."""
    CANDIDATE_LIMIT = "EnoughCandidates"
    WAITS_FOR_COMPLETION = "WaitsForCompletion"
    """From here on: it is a candidate, and not removed yet."""
    NOT_LONG_ENOUGH = "NotUnneededLongEnough"
    NOT_UNREADY_LONG_ENOUGH = "NotUnreadyLongEnough"
    THROTTLED = "ScaleDownThrottled"


class WhyGoes(StrEnum):
    """Why a node is removed. The closed list: it labels the metric."""

    EMPTY = "Empty"
    UNDERUTILIZED = "Underutilized"
    UNREADY = "Unready"


class Move(msgspec.Struct, frozen=True, gc=False):
    """A pod that has to leave, and the node it would fit on."""

    pod: ObjectKey
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Removable:
    """A node that can go together with all others that can."""

    node: str
    why: WhyGoes
    moves: tuple[Move, ...] = ()
    """All pods that have to leave for it, members of a gang on other nodes among them. None: it is empty."""
    waits_for: tuple[ObjectKey, ...] = ()
    """Pods that are to finish first."""

    @property
    def empty(self) -> bool:
        return not self.moves and not self.waits_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Unremovable:
    """A node that stays, and the first thing that speaks against removing it."""

    node: str
    why: WhyStays
    pod: ObjectKey | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkCandidate:
    """Put the soft taint on a node: let pods go elsewhere if they can."""

    node: str
    since: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmarkCandidate:
    """Take the soft taint off a node."""

    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNode:
    """Taint, look again, evict these pods and no others, delete. Nothing goes that is not listed here."""

    node: str
    reason: WhyGoes
    evict: tuple[Move, ...]
    why: str


DrainAction = MarkCandidate | UnmarkCandidate | RemoveNode
