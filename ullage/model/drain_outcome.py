"""What came of removing a node. Outcomes go back into the loop as news; none of them is an exception."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.drain import RemoveNode
from ullage.model.event import ObjectKey


class DrainSetback(StrEnum):
    """Why a node was not removed after all. The closed list: it labels the metric, and Events name it."""

    OCCUPIED = "Occupied"
    """A pod came that the plan did not know."""
    POD_MUST_STAY = "PodMustStay"
    """A pod must not be moved any more; or a gang's disruption budgets do not last for all of it."""
    NO_PLACE = "NoPlaceToMovePods"
    """Somebody took the place a pod was to go to: evicting it would make a new node necessary."""
    PROTECTED = "Protected"
    """Its owner wants it kept."""
    NODE_CHANGED = "NodeChanged"
    """It is gone, or another, or no longer tainted."""
    EVICTION_REFUSED = "EvictionRefused"
    PODS_REMAIN = "PodsRemain"
    """Pods were evicted and not gone in time."""
    NO_INSTANCE = "NoInstance"
    """The provider does not know a machine for it any more."""
    CLOUD_FAILED = "CloudFailed"
    API_FAILED = "ApiFailed"


class EvictionResult(StrEnum):
    """What became of asking a pod to go. The closed list: it labels the metric."""

    EVICTED = "Evicted"
    REFUSED = "EvictionRefused"
    """Until the deadline, or for good."""
    REMAINS = "PodsRemain"
    """It was evicted, and was not gone in time."""
    FAILED = "ApiFailed"
    """Nobody answered until the deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A pod that was asked to go."""

    pod: ObjectKey
    uid: str
    node: str
    """That is being removed: a member of a gang may have been on another."""
    result: EvictionResult
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGone:
    """The node is removed; or empty, cordoned, and left to whoever owns it."""

    action: RemoveNode
    uid: str
    instance: str = ""
    left_to_owner: bool = False
    evicted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStays:
    """The node is not removed, and takes pods again."""

    action: RemoveNode
    uid: str
    setback: DrainSetback
    detail: str
    pod: ObjectKey | None = None
    evicted: int = 0


DrainOutcome = NodeGone | NodeStays
