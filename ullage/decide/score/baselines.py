"""Simpler policies by name: best-fit, packing and spread. None remembers anything."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.decide.score.columns import NEVER, DemandKeys, Flags, GpuColumns, GpuDemand, Keys, keyed
from ullage.model.device import MILLI_GPU

Levels = NDArray[np.int64]

_POINTS = 100


@dataclass(frozen=True, slots=True)
class Baseline:
    """A policy that is two plain functions."""

    level_of_rows: Callable[[GpuColumns, GpuDemand], Levels]
    device_on_row: Callable[[GpuColumns, GpuDemand, int], int]

    def keys(self, columns: GpuColumns, demand: GpuDemand, fits: Flags) -> Keys:
        return np.where(fits, keyed(self.level_of_rows(columns, demand), columns.gpu_left.sum(axis=1)), NEVER)

    def keys_for(self, demand: GpuDemand) -> DemandKeys:
        return _BaselineKeys(self, demand)

    def look(self, columns: GpuColumns, rows: Iterable[int]) -> None:
        """Nothing is remembered."""

    def basis(self, columns: GpuColumns) -> tuple[int, int] | None:
        return columns.measures()

    def device(self, columns: GpuColumns, demand: GpuDemand, row: int) -> int:
        return self.device_on_row(columns, demand, row)


@dataclass(frozen=True, slots=True)
class _BaselineKeys:
    """Keys of some rows."""

    policy: Baseline
    demand: GpuDemand

    def at(self, columns: GpuColumns, rows: NDArray[np.intp]) -> Keys:
        some = columns.at(rows)
        return keyed(self.policy.level_of_rows(some, self.demand), some.gpu_left.sum(axis=1))

    def at_row(self, columns: GpuColumns, row: int) -> int:
        return int(self.at(columns, np.array([row]))[0])


def least_left(columns: GpuColumns, demand: GpuDemand) -> Levels:
    """The node with least left of CPU and GPU together, in hundredths of a largest node."""
    return np.floor((1.0 - _left_over(columns, demand)) * _POINTS).astype(np.int64)


def most_left(columns: GpuColumns, demand: GpuDemand) -> Levels:
    """The opposite."""
    return np.floor(_left_over(columns, demand) * _POINTS).astype(np.int64)


def opened_first(columns: GpuColumns, demand: GpuDemand) -> Levels:
    """Opened GPUs (50 to 100), then free GPUs on nodes in use (33 to 50), then free nodes, the small ones first."""
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


def fullest_device(columns: GpuColumns, demand: GpuDemand, row: int) -> int:
    """The device with least left that still holds the share; -1 if the demand is not for one share."""
    size = demand.milli[int(columns.model[row])]
    if demand.gpus != 1 or size == MILLI_GPU:
        return -1
    left = columns.gpu_left[row]
    device = int(np.where(left >= size, left, MILLI_GPU + 1).argmin())
    return device if left[device] >= size else -1


def emptiest_device(columns: GpuColumns, demand: GpuDemand, row: int) -> int:
    """The device with most left; -1 if the demand is not for one GPU."""
    return int(columns.gpu_left[row].argmax()) if demand.gpus == 1 else -1


def _sizes(columns: GpuColumns, demand: GpuDemand) -> NDArray[np.int64]:
    sizes: NDArray[np.int64] = np.array(demand.milli, dtype=np.int64)[columns.model]
    return sizes


def _left_over(columns: GpuColumns, demand: GpuDemand) -> NDArray[np.float64]:
    """CPU and GPU left after the placement, each as a part of the largest node's, averaged."""
    most_cpu, most_gpu = columns.measures()
    cpu = (columns.cpu_left - demand.cpu) / max(most_cpu, 1)
    idle = columns.gpu_left.sum(axis=1) - demand.gpus * _sizes(columns, demand)
    left: NDArray[np.float64] = (cpu + idle / max(most_gpu, 1)) / 2.0
    return left


BEST_FIT = Baseline(least_left, fullest_device)
PACKING = Baseline(opened_first, fullest_device)
SPREAD = Baseline(most_left, emptiest_device)
