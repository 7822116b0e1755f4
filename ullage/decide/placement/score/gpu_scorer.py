"""Interface of GPU scores: ScoreColumns with one row per node, GpuDemand, and the GpuScorer protocol.

`ScoreView` owns the arrays and changes them in place; scorers only read them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Keys = NDArray[np.int64]

NEVER = -(1 << 62)
"""The key of a node that does not fit."""
IDLE_BITS = 15
"""Bits below the level in a key, for the node's idle GPU in thousandths: 16 devices fit in fifteen bits."""


@dataclass(frozen=True, slots=True)
class ScoreColumns:
    """Columns of all nodes. A GPU that may not be given whole or shared (unhealthy, or split by MIG) has 0 left."""

    stamp: NDArray[np.int64]
    """Version of the row: differs whenever anything else in the row does."""
    cpu_left: NDArray[np.int64]
    """Thousandths of a core."""
    cpu_total: NDArray[np.int64]
    gpu_left: NDArray[np.integer]
    """Thousandths of each device, 0 to 1000: rows x devices."""
    gpu_total: NDArray[np.int64]
    """Thousandths, of all devices together."""
    model: NDArray[np.integer]
    """Index of the GPU model; 0 without GPUs. Two models in one node count as a model of their own."""
    name_rank: NDArray[np.integer]
    """Place of the row among all nodes by name."""
    largest: tuple[int, int] | None = None
    """CPU and GPU of the largest nodes, if these are some rows of a larger table."""

    def measures(self) -> tuple[int, int]:
        """CPU and GPU of the largest nodes. Scores relative to them depend on these beside the row."""
        return self.largest or (int(self.cpu_total.max(initial=0)), int(self.gpu_total.max(initial=0)))

    def take_over(self, other: "ScoreColumns") -> None:
        """Take over the rows of a smaller table."""
        for name in ("stamp", "cpu_left", "cpu_total", "gpu_left", "gpu_total", "model", "name_rank"):
            rows = getattr(other, name)
            getattr(self, name)[: len(rows)] = rows

    def copy(self) -> "ScoreColumns":
        """Copy of all rows."""
        whole = np.arange(len(self.stamp))
        return replace(self.at(whole), largest=self.largest)

    def at(self, rows: NDArray[np.integer]) -> "ScoreColumns":
        """Copy of these rows."""
        return ScoreColumns(
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
    """Fields of a pod that GPU scores read. Pods with equal demands are scored alike."""

    cpu: int
    """Thousandths of a core; pods that request none count as 100, as in kube-scheduler."""
    gpus: int
    milli: tuple[int, ...]
    """Thousandths taken of each GPU, by model index: 1000 is a whole GPU, 0 means that the model does not suit."""

    def sizes(self, models: int) -> NDArray[np.int64]:
        """`milli` over so many models. A model added later suits the demand if every earlier model did."""
        unheard = max(self.milli, default=0) if all(self.milli[1:]) else 0
        return np.array((*self.milli[:models], *(unheard for _ in range(models - len(self.milli)))), dtype=np.int64)


class BestNode(NamedTuple):
    """Best row, the device a share should take there (-1: any), and its level."""

    row: int
    device: int
    level: int


class DemandScores(Protocol):
    """Keys of rows for one demand under one policy; see `keyed`. Callers pass only rows that fit.

    The policy's `look` must have been called for them since they last changed.
    """

    def at(self, columns: ScoreColumns, rows: NDArray[np.intp]) -> Keys:
        """Keys of these rows."""

    def at_row(self, columns: ScoreColumns, row: int) -> int:
        """Key of one row."""


class GpuScorer(Protocol):
    """Protocol of a GPU policy."""

    def keys(self, columns: ScoreColumns, demand: GpuDemand, fits: Flags) -> Keys:
        """Keys of all rows (see `keyed`), the higher the better; undefined for rows that do not fit."""

    def keys_for(self, demand: GpuDemand) -> DemandScores:
        """Keys of one demand, for callers that read some rows repeatedly."""

    def look(self, columns: ScoreColumns, rows: Iterable[int]) -> None:
        """Update what the policy caches of these rows, which may have changed."""

    def basis(self, columns: ScoreColumns) -> tuple[int, int] | None:
        """Inputs of keys beside their row: while they are equal, a row that did not change keeps its key."""

    def device(self, columns: ScoreColumns, demand: GpuDemand, row: int) -> int:
        """Device a single share should take on a row; -1 for any."""


def keyed(levels: NDArray[np.int64], idle: NDArray[np.int64]) -> Keys:
    """Keys from levels: among equal levels the node with least idle GPU has the highest key."""
    keys: Keys = (levels << IDLE_BITS) - idle
    return keys


def best(
    policy: GpuScorer, columns: ScoreColumns, demand: GpuDemand, fits: Flags, extra: Keys | None = None
) -> BestNode | None:
    """Best node that fits: highest level, then least idle GPU, then first by name. None if none fits.

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
    return BestNode(row, policy.device(columns, demand, row), -(-int(top) >> IDLE_BITS))


def points(keys: Keys, fits: Flags) -> NDArray[np.int64]:
    """Levels of the rows that fit on a scale from 0 to 100, as kube-scheduler normalises its scores; others get 0."""
    if not fits.any():
        return np.zeros(len(keys), dtype=np.int64)
    levels = -(-keys >> IDLE_BITS)
    low, high = levels[fits].min(), levels[fits].max()
    return np.where(fits, (levels - low) * 100 // max(high - low, 1), 0)
