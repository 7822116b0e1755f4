"""Baseline policies: best-fit, packing and spread. They cache nothing."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.decide.placement.score.gpu_scorer import NEVER, DemandScores, Flags, GpuDemand, Keys, ScoreColumns, keyed
from ullage.model.device import MILLI_GPU

Levels = NDArray[np.int64]

_POINTS = 100


@dataclass(frozen=True, slots=True)
class BaselineScorer:
    """GPU policy made of two functions."""

    level_of_rows: Callable[[ScoreColumns, GpuDemand], Levels]
    device_on_row: Callable[[ScoreColumns, GpuDemand, int], int]

    def keys(self, columns: ScoreColumns, demand: GpuDemand, fits: Flags) -> Keys:
        return np.where(fits, keyed(self.level_of_rows(columns, demand), columns.gpu_left.sum(axis=1)), NEVER)

    def keys_for(self, demand: GpuDemand) -> DemandScores:
        return _BaselineKeys(self, demand)

    def look(self, columns: ScoreColumns, rows: Iterable[int]) -> None:
        """Do nothing: nothing is cached."""

    def basis(self, columns: ScoreColumns) -> tuple[int, int] | None:
        return columns.measures()

    def device(self, columns: ScoreColumns, demand: GpuDemand, row: int) -> int:
        return self.device_on_row(columns, demand, row)


@dataclass(frozen=True, slots=True)
class _BaselineKeys:
    """Keys of some rows."""

    policy: BaselineScorer
    demand: GpuDemand

    def at(self, columns: ScoreColumns, rows: NDArray[np.intp]) -> Keys:
        some = columns.at(rows)
        return keyed(self.policy.level_of_rows(some, self.demand), some.gpu_left.sum(axis=1))

    def at_row(self, columns: ScoreColumns, row: int) -> int:
        return int(self.at(columns, np.array([row]))[0])


def least_left(columns: ScoreColumns, demand: GpuDemand) -> Levels:
    """Levels that prefer the node with least CPU and GPU left, in hundredths of the largest node."""
    return np.floor((1.0 - _left_over(columns, demand)) * _POINTS).astype(np.int64)


def most_left(columns: ScoreColumns, demand: GpuDemand) -> Levels:
    """Levels that prefer the node with most CPU and GPU left, in hundredths of the largest node."""
    return np.floor(_left_over(columns, demand) * _POINTS).astype(np.int64)


def opened_first(columns: ScoreColumns, demand: GpuDemand) -> Levels:
    """Levels: GPUs in use (50 to 100), then free GPUs on nodes in use (33 to 50), then free nodes, small ones first."""
    if not demand.gpus:
        return np.zeros(len(columns.stamp), dtype=np.int64)
    left = columns.gpu_left
    roomy = np.where(left >= _sizes(columns, demand)[:, None], left, MILLI_GPU)
    taken = np.sort(roomy, axis=1)[:, : demand.gpus]
    opening = (taken == MILLI_GPU).sum(axis=1)
    whole = (left == MILLI_GPU).sum(axis=1)
    on_opened = np.maximum(_POINTS - (taken * _POINTS // MILLI_GPU).sum(axis=1) // 10, 50)
    on_used = np.where(opening > 0, np.maximum(50 - opening, 33), on_opened)
    unused = whole * MILLI_GPU == columns.gpu_total
    levels: Levels = np.where(unused, np.maximum(33 - whole, whole), on_used).astype(np.int64)
    return levels


def fullest_device(columns: ScoreColumns, demand: GpuDemand, row: int) -> int:
    """The device with least left that still holds the share; -1 if the demand is not for one share."""
    size = demand.milli[int(columns.model[row])]
    if demand.gpus != 1 or size == MILLI_GPU:
        return -1
    left = columns.gpu_left[row]
    device = int(np.where(left >= size, left, MILLI_GPU + 1).argmin())
    return device if left[device] >= size else -1


def emptiest_device(columns: ScoreColumns, demand: GpuDemand, row: int) -> int:
    """The device with most left; -1 if the demand is not for one GPU."""
    return int(columns.gpu_left[row].argmax()) if demand.gpus == 1 else -1


def _sizes(columns: ScoreColumns, demand: GpuDemand) -> NDArray[np.int64]:
    sizes: NDArray[np.int64] = np.array(demand.milli, dtype=np.int64)[columns.model]
    return sizes


def _left_over(columns: ScoreColumns, demand: GpuDemand) -> NDArray[np.float64]:
    """CPU and GPU left after the placement, each as a part of the largest node's, averaged."""
    most_cpu, most_gpu = columns.measures()
    cpu = (columns.cpu_left - demand.cpu) / max(most_cpu, 1)
    idle = columns.gpu_left.sum(axis=1) - demand.gpus * _sizes(columns, demand)
    left: NDArray[np.float64] = (cpu + idle / max(most_gpu, 1)) / 2.0
    return left


BEST_FIT = BaselineScorer(least_left, fullest_device)
PACKING = BaselineScorer(opened_first, fullest_device)
SPREAD = BaselineScorer(most_left, emptiest_device)
