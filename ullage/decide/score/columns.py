"""What GPU scores read of the nodes: one row per node, in arrays that somebody else owns and changes in place."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Levels = NDArray[np.int64]

NEVER = np.iinfo(np.int64).min // 4
"""The level of a node that does not fit. Far enough from the end for other scores to be added."""


@dataclass(frozen=True, slots=True)
class GpuColumns:
    """Views on the columns of all nodes. A GPU nobody may be given (ill, or split by MIG) has nothing left."""

    stamp: NDArray[np.int64]
    """Differs from before whenever anything else in the row does."""
    cpu_left: NDArray[np.int64]
    """Thousandths of a core."""
    cpu_total: NDArray[np.int64]
    gpu_left: NDArray[np.integer]
    """Thousandths of each device: rows x devices."""
    gpu_total: NDArray[np.int64]
    """Thousandths, of all devices together."""
    model: NDArray[np.integer]
    """Index of the GPU model; 0 where there are no GPUs. A node with two models counts as a model of its own."""
    name_rank: NDArray[np.integer]
    """The row's place among all nodes by name."""


class GpuDemand(NamedTuple):
    """What of a pod GPU scores look at. Pods that agree in it are scored alike."""

    cpu: int
    """Thousandths of a core; pods that ask for none count as 100, as elsewhere in Kubernetes."""
    gpus: int
    milli: tuple[int, ...]
    """What it takes of each GPU, by the index of the model: 1000 is a whole one, 0 means that model will not do."""


class Best(NamedTuple):
    """The winning node, and the device a share should take there (-1: any)."""

    row: int
    device: int
    level: int


class GpuPolicy(Protocol):
    """How a named policy is asked."""

    def levels(self, columns: GpuColumns, demand: GpuDemand, fits: Flags) -> Levels:
        """How good each node is, higher is better; rows that do not fit hold anything. Do not keep the array."""

    def device(self, columns: GpuColumns, demand: GpuDemand, row: int) -> int:
        """The device a single share should take on a row, after `levels` was asked; -1 for any."""


def best(
    policy: GpuPolicy, columns: GpuColumns, demand: GpuDemand, fits: Flags, extra: Levels | None = None
) -> Best | None:
    """The best node that fits: highest level, then least idle GPU, then first by name. None if none fits.

    `extra` is added to the levels: other scores, in the policy's own steps.
    """
    levels = policy.levels(columns, demand, fits)
    if extra is not None:
        levels = levels + extra
    levels = np.where(fits, levels, NEVER)
    top = levels.max(initial=NEVER)
    if top == NEVER:
        return None
    rows = np.flatnonzero(levels == top)
    if len(rows) > 1:
        idle = columns.gpu_left[rows].sum(axis=1)
        rows = rows[idle == idle.min()]
    row = int(rows[columns.name_rank[rows].argmin()]) if len(rows) > 1 else int(rows[0])
    return Best(row, policy.device(columns, demand, row), int(top))


def points(levels: Levels, fits: Flags) -> Levels:
    """Levels of the rows that fit on a scale from 0 to 100, as kube-scheduler normalises its scores; others get 0."""
    if not fits.any():
        return np.zeros_like(levels)
    low, high = levels[fits].min(), levels[fits].max()
    return np.where(fits, (levels - low) * 100 // max(high - low, 1), 0)
