"""Any node, and any of its devices with room: what every policy has to beat. Chance is a hash, so that runs repeat."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.decide.score.columns import NEVER, DemandKeys, Flags, GpuColumns, GpuDemand, Keys, keyed

_LEVELS = 1 << 16
"""As many as fit in a rank."""
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, slots=True)
class Chance:
    """Draws anew for every node whenever anything has changed on any: of nodes that keep their number, those that had a
    high one would be taken in turn, and the rest never."""

    seed: int = 0

    def keys(self, columns: GpuColumns, demand: GpuDemand, fits: Flags) -> Keys:
        return np.where(fits, self._keys(columns, demand, np.arange(len(columns.stamp))), NEVER)

    def keys_for(self, demand: GpuDemand) -> DemandKeys:
        return _ChanceKeys(self, demand)

    def look(self, columns: GpuColumns, rows: Iterable[int]) -> None:
        """Nothing is remembered."""

    def basis(self, columns: GpuColumns) -> tuple[int, int] | None:
        return self.seed, int(columns.stamp.sum())

    def device(self, columns: GpuColumns, demand: GpuDemand, row: int) -> int:
        size = demand.milli[int(columns.model[row])]
        roomy = np.flatnonzero(columns.gpu_left[row] >= size)
        if demand.gpus != 1 or not len(roomy):
            return -1
        draw = _drawn(self._turn(columns, demand), roomy)
        return int(roomy[draw.argmax()])

    def _keys(self, columns: GpuColumns, demand: GpuDemand, rows: NDArray[np.intp]) -> Keys:
        levels = _drawn(self._turn(columns, demand), columns.name_rank[rows]) % np.uint64(_LEVELS)
        return keyed(levels.astype(np.int64), np.zeros(len(rows), dtype=np.int64))

    def _turn(self, columns: GpuColumns, demand: GpuDemand) -> int:
        """Differs from decision to decision."""
        parts = (self.seed, int(columns.stamp.sum()), demand.cpu, demand.gpus)
        turn = 0
        for part in parts:
            turn = (turn * 0x2545F4914F6CDD1D + part + 1) & 0xFFFF_FFFF_FFFF_FFFF
        return turn


@dataclass(frozen=True, slots=True)
class _ChanceKeys:
    policy: Chance
    demand: GpuDemand

    def at(self, columns: GpuColumns, rows: NDArray[np.intp]) -> Keys:
        return self.policy._keys(columns, self.demand, rows)

    def at_row(self, columns: GpuColumns, row: int) -> int:
        return int(self.at(columns, np.array([row]))[0])


def _drawn(turn: int, which: NDArray[np.integer]) -> NDArray[np.uint64]:
    """A number for each, without any pattern in it."""
    mixed: NDArray[np.uint64] = which.astype(np.uint64) * _MIX[0] + np.uint64(turn)
    for shift, factor in ((30, _MIX[1]), (27, _MIX[2])):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * factor
    return mixed ^ (mixed >> np.uint64(31))
