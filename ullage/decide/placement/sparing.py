"""Score that keeps GPU nodes free for pods that need them; for pods without GPUs."""

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.score.gpu_scorer import ScoreColumns
from ullage.decide.placement.score.kube import WEIGHTS
from ullage.decide.placement.score.kube.scale import MOST, Points
from ullage.model.resources import GPU
from ullage.state.node_columns import NodeColumns

WEIGHT = WEIGHTS["taints"]
"""Weight of the score: for a pod without GPUs, a node with GPUs counts like a PreferNoSchedule taint."""

_HALF = MOST // 2
"""Most points of a node with GPUs, reached when none of its GPUs is idle."""


def spared(view: ScoreColumns, columns: NodeColumns, rows: npt.NDArray[np.intp]) -> Points:
    """Weighted points of these rows for a pod without GPUs."""
    without = (columns.gpus.exists[rows] == 0) & (columns.allocatable[columns.resource(GPU)][rows] == 0)
    total = view.gpu_total[rows]
    busy = _HALF * (total - view.gpu_left[rows].sum(axis=1)) // np.maximum(total, 1)
    points: Points = WEIGHT * np.where(without, MOST, busy)
    return points
