"""A pod that got no place, as the pod's owner is told."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.event import ObjectKey


class Waiting(StrEnum):
    """The reason of a pod's condition PodScheduled=False. The words are Kubernetes', except the second."""

    UNSCHEDULABLE = "Unschedulable"
    """Nothing fits. Autoscalers buy a node for such pods."""
    FOR_CAPACITY = "WaitingForCapacity"
    """A node for it is on its way already; autoscalers must not buy another."""
    SCHEDULER_ERROR = "SchedulerError"
    """We failed, not the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a pod was not placed."""

    word: str
    """The most telling reason of `model.verdict`, or what is wrong with the claim: one word."""
    message: str
    """All reasons, grouped, for people."""
    waiting: Waiting = Waiting.UNSCHEDULABLE
    hopeless: bool = False
    """No change of the cluster can help: what is asked for has to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Say on this very pod why it has no place, and which node it may get once others have left."""

    pod: ObjectKey
    uid: str
    why: Refusal
    nominated: str | None = None
    """The node to nominate; empty takes a nomination back, None leaves what is there."""


class NotTold(StrEnum):
    """Why a refusal was not written on its pod. The closed list: it labels the metric."""

    POD_GONE = "PodGone"
    POD_BOUND = "PodBound"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class Refused:
    """The pod says so now."""

    action: Refuse
    written: bool
    """False where it said so already."""


@dataclass(frozen=True, slots=True)
class NotRefused:
    """The pod says nothing of it."""

    action: Refuse
    setback: NotTold
    detail: str = ""


RefuseOutcome = Refused | NotRefused
