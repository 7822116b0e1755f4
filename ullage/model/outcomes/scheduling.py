"""Outcomes of intents of the scheduler."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.intents import BindGang, BindPod, EvictGang, MarkUnschedulable, Preempt, Victim


class MarkFailure(StrEnum):
    """Reason a scheduling failure was not written on its pod. Closed list: it labels the metric."""

    POD_GONE = "PodGone"
    POD_BOUND = "PodBound"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class PodMarked:
    """The pod's status is as asked for."""

    action: MarkUnschedulable
    written: bool
    """False where it was so already."""


@dataclass(frozen=True, slots=True)
class PodNotMarked:
    """The pod's status was not written."""

    action: MarkUnschedulable
    setback: MarkFailure
    detail: str = ""


RefuseOutcome = PodMarked | PodNotMarked


class BindFailure(StrEnum):
    """Reason a placement did not happen. Closed list: it labels the metric."""

    GPU_TAKEN = "GpuTaken"
    POD_CHANGED = "PodChanged"
    POD_GONE = "PodGone"
    FORBIDDEN = "Forbidden"
    """The API server forbids a write: a role is missing, or a webhook does not know the scheduler's user."""
    REFUSED = "Refused"
    API_FAILED = "ApiFailed"
    VOLUME_NOT_READY = "VolumeNotReady"
    """A claim of the pod got no volume on the node."""
    CLAIM_CHANGED = "ClaimChanged"
    """The pod's claim was deleted, or could not be protected against deletion."""
    GANG_FELL_APART = "GangFellApart"
    """Another member of the gang could not get what it needs."""


@dataclass(frozen=True, slots=True)
class PodBound:
    """The pod is bound as asked, and holds its leases."""

    action: BindPod


@dataclass(frozen=True, slots=True)
class PodNotBound:
    """The pod is not bound by this intent, and holds nothing because of it, except where `leaked` says so."""

    action: BindPod
    setback: BindFailure
    detail: str
    device: int | None = None
    """The device that was taken, where `setback` is GPU_TAKEN."""
    leaked: bool = False
    """Leases may be left over: the pod adopts them at its next attempt, or the LeaseGarbageCollector frees them."""
    again_as: str = ""
    """resourceVersion of a pod that still waits and was only written to by another client: worth another attempt."""


PlaceOutcome = PodBound | PodNotBound


@dataclass(frozen=True, slots=True)
class GangBindOutcome:
    """Outcome of each member, in the order of the intent."""

    action: BindGang
    outcomes: tuple[PlaceOutcome, ...]


class EvictionFailure(StrEnum):
    """Reason a pod was not evicted. Closed list: it labels the metric."""

    BUDGET_SPENT = "BudgetSpent"
    """Its disruption budget allows no more for now."""
    REPLACED = "Replaced"
    """Another pod has its name now."""
    FORBIDDEN = "Forbidden"
    API_FAILED = "ApiFailed"


NotEvicted = tuple[tuple[Victim, EvictionFailure], ...]
"""Victims that were not evicted, with the reason."""


@dataclass(frozen=True, slots=True)
class PreemptOutcome:
    """Outcome of a preemption. No pod is evicted where the nomination could not be written."""

    action: Preempt
    evicted: tuple[Victim, ...] = ()
    """Victims that were gone already count as evicted."""
    refused: NotEvicted = ()
    nominated: bool = True
    setback: MarkFailure | None = None
    """Reason the pod was not nominated."""


@dataclass(frozen=True, slots=True)
class EvictGangOutcome:
    """Outcome for each victim. Victims that were gone already count as evicted."""

    action: EvictGang
    evicted: tuple[Victim, ...]
    refused: NotEvicted


SchedulingOutcome = PlaceOutcome | GangBindOutcome | PreemptOutcome | EvictGangOutcome | RefuseOutcome
