"""Score of a node for a VM pod: a curve over how full the node would be, with a peak. See docs/vms.md, Scheduling.

Below the peak fuller nodes score higher, so that VMs pack; above it lower, so that VMs keep room to grow.
"""

from dataclasses import dataclass

from ullage.model.vm import LedgerRow, NodeLedger, VmAmounts

BEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class VmScoring:
    """Parameters of the score curve: all from 0 to 1, and the peak strictly between."""

    min_usage_score: float = 0.5
    """Score of a node that is empty."""
    max_usage_score: float = 0.0
    """Score of a node that is full."""
    score_peak: float = 0.8
    """Used part of a node at which it scores best."""

    def __post_init__(self) -> None:
        for name in ("min_usage_score", "max_usage_score"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1")
        if not 0 < self.score_peak < 1:
            raise ValueError("score_peak must be between 0 and 1")

    def value(self, used: float) -> float:
        """Value of the curve at a used part of the node."""
        if used < self.score_peak:
            return self.min_usage_score + (1 - self.min_usage_score) * used / self.score_peak
        return self.max_usage_score + (1 - self.max_usage_score) * (1 - used) / (1 - self.score_peak)


def vm_score(node: NodeLedger, pod: VmAmounts, largest: VmAmounts, scoring: VmScoring) -> int:
    """Score from 0 to 100 of a node with the pod on it; the worse resource counts. 0 if the pod does not fit.

    `largest` is the most that any node has.
    """
    if not pod.within(node.free):
        return 0
    return min(
        _resource(node.cpu, pod.cpu, largest.cpu, scoring), _resource(node.memory, pod.memory, largest.memory, scoring)
    )


def _resource(row: LedgerRow, more: int, largest: int, scoring: VmScoring) -> int:
    if not row.reservable or not largest:
        return 0
    used = (row.reserved + more) / row.reservable
    return int(BEST * scoring.value(used) * row.total / largest)
