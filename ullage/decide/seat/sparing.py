"""Keeping GPU nodes free for pods that need them, as a score for those who do not."""

import numpy as np

from ullage.decide.score.columns import GpuColumns
from ullage.decide.score.kube import WEIGHTS
from ullage.decide.score.kube.scale import MOST, Points
from ullage.decide.seat.rank import Ranks
from ullage.model.resources import GPU
from ullage.state.columns import Columns

WEIGHT = WEIGHTS["taints"]
"""To a pod without GPUs, a node with GPUs counts as if a taint asked it to go elsewhere."""

_HALF = MOST // 2
"""Most points of a node with GPUs: what it has when none of them is idle."""


def spared(view: GpuColumns, columns: Columns, row: int) -> int:
    """Weighted points of one row for a pod without GPUs."""
    if not columns.gpus.exists.item(row) and not columns.allocatable.item(columns.resource(GPU), row):
        return WEIGHT * MOST
    total = view.gpu_total.item(row)
    idle = int(view.gpu_left[row].sum())
    return WEIGHT * (_HALF * (total - idle) // total) if total else 0


def spared_at(view: GpuColumns, columns: Columns, rows: Ranks) -> Points:
    """The same of these rows."""
    without = (columns.gpus.exists[rows] == 0) & (columns.allocatable[columns.resource(GPU), rows] == 0)
    total = view.gpu_total[rows]
    busy = _HALF * (total - view.gpu_left[rows].sum(axis=1)) // np.maximum(total, 1)
    points: Points = WEIGHT * np.where(without, MOST, busy)
    return points
