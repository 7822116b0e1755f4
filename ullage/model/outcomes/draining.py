"""Outcomes of intents of draining."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.fact_event import ObjectKey
from ullage.model.intents import RemoveNode
from ullage.model.pod import Pod


class RemovalFailure(StrEnum):
    """Reason a node was not removed. Closed list: it labels the metric, and Events name it."""

    OCCUPIED = "Occupied"
    """A pod arrived that the plan does not list."""
    POD_MUST_STAY = "PodMustStay"
    """A pod must not be moved any more; or a gang's disruption budgets do not suffice for all its members."""
    NO_PLACE = "NoPlaceToMovePods"
    """The place a pod was to go to is taken: evicting the pod would make a new node necessary."""
    BUDGET_SPENT = "NotEnoughPdb"
    """A pod's disruption budget allows no eviction now, and no pod has been evicted: the node is tried again later."""
    PROTECTED = "Protected"
    """The node's owner wants it kept."""
    NODE_CHANGED = "NodeChanged"
    """The node is gone, was replaced, or is no longer tainted."""
    EVICTION_REFUSED = "EvictionRefused"
    PODS_REMAIN = "PodsRemain"
    """Pods were evicted and not gone in time."""
    VM_NOT_MIGRATED = "VmNotMigrated"
    """The migration of a VM failed, was deleted, or was not over in time."""
    NO_INSTANCE = "NoInstance"
    """The provider has no instance for the node any more."""
    CLOUD_FAILED = "CloudFailed"
    API_FAILED = "ApiFailed"


class EvictionResult(StrEnum):
    """Result of evicting a pod. Closed list: it labels the metric."""

    EVICTED = "Evicted"
    REFUSED = "EvictionRefused"
    """Refused until the deadline, or for good."""
    REMAINS = "PodsRemain"
    """The pod was evicted, and was not gone in time."""
    FAILED = "ApiFailed"
    """The API server did not answer until the deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Pod whose eviction was requested."""

    pod: ObjectKey
    uid: str
    node: str
    """Node that is being removed. A member of a gang may have been on another."""
    result: EvictionResult
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PodEvicted:
    """The API server accepted an eviction. The pod may still be terminating."""

    pod: Pod
    """As it was before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRemoved:
    """The node is removed; or it is empty, cordoned and left to its owner."""

    intent: RemoveNode
    uid: str
    instance: str = ""
    left_to_owner: bool = False
    evicted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNotRemoved:
    """The node is not removed, and takes pods again."""

    intent: RemoveNode
    uid: str
    failure: RemovalFailure
    detail: str
    pod: ObjectKey | None = None
    evicted: int = 0

    @property
    def waits_for_budget(self) -> bool:
        """True if nothing was done and the node only waits for a disruption budget: it stays a candidate."""
        return self.failure is RemovalFailure.BUDGET_SPENT


DrainOutcome = NodeRemoved | NodeNotRemoved
