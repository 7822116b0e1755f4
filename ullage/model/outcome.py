"""What came of an action. Outcomes go back into the loop as news; none of them is an exception."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.action import Place


class Setback(StrEnum):
    """Why a placement did not happen. The closed list: it labels the metric."""

    GPU_TAKEN = "GpuTaken"
    POD_CHANGED = "PodChanged"
    POD_GONE = "PodGone"
    REFUSED = "Refused"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod is bound as asked, and holds its leases."""

    action: Place


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """The pod is not bound by this action, and holds nothing because of it, except where `leaked` says so."""

    action: Place
    setback: Setback
    detail: str
    device: int | None = None
    """The one that was taken, where that is what happened."""
    leaked: bool = False
    """Leases may be left: the pod adopts them next time, or the sweeper frees them."""


PlaceOutcome = Placed | NotPlaced
