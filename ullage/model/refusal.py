"""Scheduling failure of a pod, as it is written on the pod for its owner."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.units import Seconds

SETTLED_AFTER = Seconds(120.0)
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
    permanent: bool = False
    """No change of the cluster can help: the request itself has to change."""

    @property
    def verdict(self) -> tuple[str, PodScheduledReason, bool]:
        """Equal for failures that differ in wording only, such as in the numbers of nodes and their further reasons."""
        return self.word, self.waiting, self.permanent
