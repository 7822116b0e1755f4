"""Score curve of nodes for VM pods. Frozen."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_TINY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class VmScoring:
    """Parameters of the score curve: all from 0 to 1, and the peak strictly between."""

    min_usage_score: float = 0.5
    """Score of a node that is empty."""
    max_usage_score: float = 0.0
    """Score of a node that is full."""
    score_peak: float = 0.6
    """Used part of a node at which it scores best; at most its watermark counts."""

    def __post_init__(self) -> None:
        for name in ("min_usage_score", "max_usage_score"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1")
        if not 0 < self.score_peak < 1:
            raise ValueError("score_peak must be between 0 and 1")

    def value(self, used: float, watermark: float = 1.0) -> float:
        """Value of the curve at a used part of the node. The peak is never above the node's watermark."""
        peak = min(self.score_peak, watermark)
        if used < peak:
            return self.min_usage_score + (1 - self.min_usage_score) * used / peak
        return self.max_usage_score + (1 - self.max_usage_score) * (1 - used) / (1 - peak)

    def values(
        self, used: npt.NDArray[np.float64], watermark: npt.NDArray[np.float64] | float = 1.0
    ) -> npt.NDArray[np.float64]:
        """`value` of many nodes."""
        peak = np.minimum(self.score_peak, watermark)
        rising = self.min_usage_score + (1 - self.min_usage_score) * used / np.maximum(peak, _TINY)
        falling = self.max_usage_score + (1 - self.max_usage_score) * (1 - used) / (1 - peak)
        return np.where(used < peak, rising, falling)
