"""What came of an action on a pool. Outcomes go back into the loop as news; none of them is an exception."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.instance import Instance
from ullage.model.pool_action import Deprovision, Doom, Provision, Spare
from ullage.model.provisioner import Failure


class PoolSetback(StrEnum):
    """Why something was not done. The closed list: it labels the metric."""

    OCCUPIED = "Occupied"
    """A pod that matters came to the node."""
    PROTECTED = "Protected"
    """Somebody wants the node kept."""
    NODE_CHANGED = "NodeChanged"
    """The node is gone, or another, or no longer tainted."""
    NO_INSTANCE = "NoInstance"
    """The provider does not know a machine for the node."""
    CLOUD_FAILED = "CloudFailed"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class PoolDone:
    """It is so."""

    action: Doom | Spare | Deprovision


@dataclass(frozen=True, slots=True)
class PoolNotDone:
    """It is not so, or nobody knows: it is decided on again."""

    action: Doom | Spare | Deprovision
    setback: PoolSetback
    detail: str


@dataclass(frozen=True, slots=True)
class Bought:
    """Instances were made: all that were asked for, or fewer because of `failure`."""

    action: Provision
    instances: tuple[Instance, ...]
    failure: Failure | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NotBought:
    """Nothing was made; or, without a failure, nobody knows."""

    action: Provision
    failure: Failure | None
    detail: str
    retry_after: float = 0.0


PoolOutcome = PoolDone | PoolNotDone | Bought | NotBought
