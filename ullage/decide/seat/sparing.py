"""Keeping GPU nodes free for pods that need them, as a score for those who do not."""

import numpy as np
import numpy.typing as npt

from ullage.decide.score.columns import GpuColumns
from ullage.decide.score.kube import WEIGHTS
from ullage.decide.score.kube.scale import MOST, Points
from ullage.model.resources import GPU
from ullage.state.columns import Columns

WEIGHT = WEIGHTS["taints"]
"""To a pod without GPUs, a node with GPUs counts as if a taint asked it to go elsewhere."""

_HALF = MOST // 2
"""Most points of a node with GPUs: what it has when none of them is idle."""


def spared(view: GpuColumns, columns: Columns, rows: npt.NDArray[np.intp]) -> Points:
    """Weighted points of these rows for a pod without GPUs."""
    without = (columns.gpus.exists[rows] == 0) & (columns.allocatable[columns.resource(GPU)][rows] == 0)
    total = view.gpu_total[rows]
    busy = _HALF * (total - view.gpu_left[rows].sum(axis=1)) // np.maximum(total, 1)
    points: Points = WEIGHT * np.where(without, MOST, busy)
    return points
