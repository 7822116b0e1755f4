"""Scheduling failure of a pod, as it is written on the pod for its owner."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.fact_event import ObjectKey

SETTLED_AFTER = 120.0
"""Seconds after which a changed wording of the same verdict is no longer written: the pod is left at rest."""


class PodScheduledReason(StrEnum):
    """Reason of a pod's condition PodScheduled=False. Those that begin with Waiting are ours, the rest Kubernetes'."""

    UNSCHEDULABLE = "Unschedulable"
    """Nothing fits. Autoscalers buy a node for such pods."""
    FOR_CAPACITY = "WaitingForCapacity"
    """A node for the pod is upcoming; autoscalers must not buy another."""
    FOR_GPUS = "WaitingForGpus"
    """Nothing fits, and smart pods ask Karpenter for it: Karpenter must not see the pod itself, or it buys twice."""
    SCHEDULER_ERROR = "SchedulerError"
    """The scheduler failed, not the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingFailure:
    """Result of a scheduling attempt that found no place for a pod."""

    word: str
    """One word: the most telling reason of `model.verdict`, or the fault of the claim."""
    message: str
    """All reasons, grouped, for people."""
    waiting: PodScheduledReason = PodScheduledReason.UNSCHEDULABLE
    hopeless: bool = False
    """No change of the cluster can help: the request itself has to change."""
    reasons: tuple[str, ...] = ()
    """All reasons by name, without the number of nodes that gave each."""

    @property
    def verdict(self) -> tuple[str, PodScheduledReason, bool, tuple[str, ...]]:
        """Equal for failures that differ in wording only, such as in the number of nodes that gave a reason."""
        return self.word, self.waiting, self.hopeless, self.reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkUnschedulable:
    """Write on this pod why it has no place, and the node nominated for it while other pods leave."""

    pod: ObjectKey
    uid: str
    why: SchedulingFailure
    nominated: str | None = None
    """Node to nominate; empty removes a nomination, None leaves it as it is."""


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
