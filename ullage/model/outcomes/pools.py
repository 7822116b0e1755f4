"""Outcomes of intents of provisioning."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.instance import Instance
from ullage.model.intents import ScaleUp, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.provisioner import CloudFailure
from ullage.model.units import Seconds


class PoolFailure(StrEnum):
    """Reason an intent on a node was not performed. Closed list: it labels the metric."""

    OCCUPIED = "Occupied"
    """A pod that matters came to the node."""
    PROTECTED = "Protected"
    """The node is annotated to be kept."""
    NODE_CHANGED = "NodeChanged"
    """The node is gone, was replaced, or is no longer tainted."""
    NO_INSTANCE = "NoInstance"
    """The provider has no instance for the node."""
    CLOUD_FAILED = "CloudFailed"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class PoolActionDone:
    """The intent was performed."""

    action: TaintForDeletion | Untaint | TerminateInstance


@dataclass(frozen=True, slots=True)
class PoolActionFailed:
    """The intent was not performed, or its result is unknown. The next plan decides again."""

    action: TaintForDeletion | Untaint | TerminateInstance
    setback: PoolFailure
    detail: str
    retry_after: Seconds = Seconds(0.0)
    """Seconds the cloud asked to wait; 0 where it did not say."""
    instance_deleted: bool = False
    """True if the cloud has deleted the instance, and only its Node is still there."""


@dataclass(frozen=True, slots=True)
class NodesLaunched:
    """Instances were made: all that were requested, or fewer because of `failure`."""

    action: ScaleUp
    instances: tuple[Instance, ...]
    failure: CloudFailure | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """No instance was made; or, without a failure, the outcome is unknown."""

    action: ScaleUp
    failure: CloudFailure | None
    detail: str
    retry_after: Seconds = Seconds(0.0)


PoolOutcome = PoolActionDone | PoolActionFailed | NodesLaunched | LaunchFailed
