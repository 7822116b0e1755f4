"""Score curve of nodes for VM pods. Frozen."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


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

    def values(self, used: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """`value` of many nodes."""
        rising = self.min_usage_score + (1 - self.min_usage_score) * used / self.score_peak
        falling = self.max_usage_score + (1 - self.max_usage_score) * (1 - used) / (1 - self.score_peak)
        return np.where(used < self.score_peak, rising, falling)
