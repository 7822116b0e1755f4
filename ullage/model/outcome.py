"""What came of an action. Outcomes go back into the loop as news; none of them is an exception."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.action import EvictGang, Place, PlaceGang, Preempt, Victim
from ullage.model.refusal import NotTold


class Setback(StrEnum):
    """Why a placement did not happen. The closed list: it labels the metric."""

    GPU_TAKEN = "GpuTaken"
    POD_CHANGED = "PodChanged"
    POD_GONE = "PodGone"
    REFUSED = "Refused"
    API_FAILED = "ApiFailed"
    VOLUME_NOT_READY = "VolumeNotReady"
    """A claim of the pod got no volume on the node."""
    GANG_FELL_APART = "GangFellApart"
    """What another member of its gang needs was not to be had."""


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
    again_as: str = ""
    """The resourceVersion of the pod where it still waits, and was only written to by somebody: worth another try."""


PlaceOutcome = Placed | NotPlaced


@dataclass(frozen=True, slots=True)
class GangOutcome:
    """What came of each member, in the action's order."""

    action: PlaceGang
    outcomes: tuple[PlaceOutcome, ...]


class NotEvicted(StrEnum):
    """Why a pod was not evicted. The closed list: it labels the metric."""

    BUDGET_SPENT = "BudgetSpent"
    """Its disruption budget allows no more for now."""
    REPLACED = "Replaced"
    """Another pod has its name now."""
    FORBIDDEN = "Forbidden"
    API_FAILED = "ApiFailed"


Spared = tuple[tuple[Victim, NotEvicted], ...]
"""Who was not evicted, and why."""


@dataclass(frozen=True, slots=True)
class PreemptOutcome:
    """Nobody was evicted where the pod could not be given its nomination."""

    action: Preempt
    evicted: tuple[Victim, ...] = ()
    """Those who are gone already count."""
    refused: Spared = ()
    nominated: bool = True
    setback: NotTold | None = None
    """Why it was not nominated."""


@dataclass(frozen=True, slots=True)
class EvictGangOutcome:
    """What came of each victim; whoever is gone already counts as evicted."""

    action: EvictGang
    evicted: tuple[Victim, ...]
    refused: Spared
