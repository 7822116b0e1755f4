"""What GPU scores read of the nodes: one row per node, in arrays that somebody else owns and changes in place."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Keys = NDArray[np.int64]

NEVER = -(1 << 62)
"""The key of a node that does not fit."""
IDLE_BITS = 15
"""A key is a level in the high bits, less the node's idle GPU in thousandths: 16 devices fit in fifteen bits."""


@dataclass(frozen=True, slots=True)
class GpuColumns:
    """Views on the columns of all nodes. A GPU nobody may be given (ill, or split by MIG) has nothing left."""

    stamp: NDArray[np.int64]
    """Differs from before whenever anything else in the row does."""
    cpu_left: NDArray[np.int64]
    """Thousandths of a core."""
    cpu_total: NDArray[np.int64]
    gpu_left: NDArray[np.integer]
    """Thousandths of each device, 0 to 1000: rows x devices."""
    gpu_total: NDArray[np.int64]
    """Thousandths, of all devices together."""
    model: NDArray[np.integer]
    """Index of the GPU model; 0 where there are no GPUs. A node with two models counts as a model of its own."""
    name_rank: NDArray[np.integer]
    """The row's place among all nodes by name."""
    largest: tuple[int, int] | None = None
    """CPU and GPU of the largest nodes, where these are some rows of a larger table."""

    def measures(self) -> tuple[int, int]:
        """CPU and GPU of the largest nodes: what scores that compare with them depend on beside the row."""
        return self.largest or (int(self.cpu_total.max(initial=0)), int(self.gpu_total.max(initial=0)))

    def at(self, rows: NDArray[np.integer]) -> "GpuColumns":
        """These rows only, copied."""
        return GpuColumns(
            stamp=self.stamp[rows],
            cpu_left=self.cpu_left[rows],
            cpu_total=self.cpu_total[rows],
            gpu_left=self.gpu_left[rows],
            gpu_total=self.gpu_total[rows],
            model=self.model[rows],
            name_rank=self.name_rank[rows],
            largest=self.measures(),
        )


class GpuDemand(NamedTuple):
    """What of a pod GPU scores look at. Pods that agree in it are scored alike."""

    cpu: int
    """Thousandths of a core; pods that ask for none count as 100, as elsewhere in Kubernetes."""
    gpus: int
    milli: tuple[int, ...]
    """What it takes of each GPU, by the index of the model: 1000 is a whole one, 0 means that model will not do."""

    def sizes(self, models: int) -> NDArray[np.int64]:
        """The same over so many models. One that was not known then is taken by whoever took every one that was."""
        unheard = max(self.milli, default=0) if all(self.milli[1:]) else 0
        return np.array((*self.milli[:models], *(unheard for _ in range(models - len(self.milli)))), dtype=np.int64)


class Best(NamedTuple):
    """The winning node, the device a share should take there (-1: any), and the level it won with."""

    row: int
    device: int
    level: int


class DemandKeys(Protocol):
    """How good rows are for one demand under one policy; see `keyed`. Only rows that fit are asked about.

    The policy must have looked at them since they last changed.
    """

    def at(self, columns: GpuColumns, rows: NDArray[np.intp]) -> Keys:
        """Of these rows."""

    def at_row(self, columns: GpuColumns, row: int) -> int:
        """Of one row."""


class GpuPolicy(Protocol):
    """How a named policy is asked."""

    def keys(self, columns: GpuColumns, demand: GpuDemand, fits: Flags) -> Keys:
        """How good each node is (see `keyed`), the higher the better; rows that do not fit hold anything."""

    def keys_for(self, demand: GpuDemand) -> DemandKeys:
        """The same for those who ask about some rows again and again."""

    def look(self, columns: GpuColumns, rows: Iterable[int]) -> None:
        """These rows may have changed."""

    def basis(self, columns: GpuColumns) -> tuple[int, int] | None:
        """What keys depend on beside their row: while it is the same, a row that did not change keeps its key."""

    def device(self, columns: GpuColumns, demand: GpuDemand, row: int) -> int:
        """The device a single share should take on a row that was looked at; -1 for any."""


def keyed(levels: NDArray[np.int64], idle: NDArray[np.int64]) -> Keys:
    """Levels with ties broken: of equal nodes the one with least idle GPU has the highest key."""
    keys: Keys = (levels << IDLE_BITS) - idle
    return keys


def best(
    policy: GpuPolicy, columns: GpuColumns, demand: GpuDemand, fits: Flags, extra: Keys | None = None
) -> Best | None:
    """The best node that fits: highest level, then least idle GPU, then first by name. None if none fits.

    `extra` is added to the keys: other scores, as levels of the policy shifted by `IDLE_BITS`.
    """
    keys = policy.keys(columns, demand, fits)
    if extra is not None:
        keys = keys + extra
    keys = np.where(fits, keys, NEVER)
    top = keys.max(initial=NEVER)
    if top == NEVER:
        return None
    rows = (keys == top).nonzero()[0]
    row = int(rows[columns.name_rank[rows].argmin()]) if len(rows) > 1 else int(rows[0])
    return Best(row, policy.device(columns, demand, row), -(-int(top) >> IDLE_BITS))


def points(keys: Keys, fits: Flags) -> NDArray[np.int64]:
    """Levels of the rows that fit on a scale from 0 to 100, as kube-scheduler normalises its scores; others get 0."""
    if not fits.any():
        return np.zeros(len(keys), dtype=np.int64)
    levels = -(-keys >> IDLE_BITS)
    low, high = levels[fits].min(), levels[fits].max()
    return np.where(fits, (levels - low) * 100 // max(high - low, 1), 0)
