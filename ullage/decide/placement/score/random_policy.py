"""RandomScorer: any node, and any device with room; the baseline of all policies. A hash, so that runs repeat."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.decide.placement.score.gpu_scorer import NEVER, DemandScores, Flags, GpuDemand, Keys, ScoreColumns, keyed

_LEVELS = 1 << 16
"""Number of levels: as many as fit in a rank."""
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, slots=True)
class RandomScorer:
    """Random levels, drawn anew for every node after any change of any node. If nodes kept their level, those with a
    high one would be chosen in turn, and the rest never."""

    seed: int = 0

    def keys(self, columns: ScoreColumns, demand: GpuDemand, fits: Flags) -> Keys:
        return np.where(fits, self._keys(columns, demand, np.arange(len(columns.stamp))), NEVER)

    def keys_for(self, demand: GpuDemand) -> DemandScores:
        return _ChanceKeys(self, demand)

    def look(self, columns: ScoreColumns, rows: Iterable[int]) -> None:
        """Do nothing: nothing is cached."""

    def basis(self, columns: ScoreColumns) -> tuple[int, int] | None:
        return self.seed, int(columns.stamp.sum())

    def device(self, columns: ScoreColumns, demand: GpuDemand, row: int) -> int:
        size = demand.milli[int(columns.model[row])]
        roomy = np.flatnonzero(columns.gpu_left[row] >= size)
        if demand.gpus != 1 or not len(roomy):
            return -1
        draw = _drawn(self._turn(columns, demand), roomy)
        return int(roomy[draw.argmax()])

    def _keys(self, columns: ScoreColumns, demand: GpuDemand, rows: NDArray[np.intp]) -> Keys:
        levels = _drawn(self._turn(columns, demand), columns.name_rank[rows]) % np.uint64(_LEVELS)
        return keyed(levels.astype(np.int64), np.zeros(len(rows), dtype=np.int64))

    def _turn(self, columns: ScoreColumns, demand: GpuDemand) -> int:
        """Seed of one decision; it changes with every change of a row."""
        parts = (self.seed, int(columns.stamp.sum()), demand.cpu, demand.gpus)
        turn = 0
        for part in parts:
            turn = (turn * 0x2545F4914F6CDD1D + part + 1) & 0xFFFF_FFFF_FFFF_FFFF
        return turn


@dataclass(frozen=True, slots=True)
class _ChanceKeys:
    policy: RandomScorer
    demand: GpuDemand

    def at(self, columns: ScoreColumns, rows: NDArray[np.intp]) -> Keys:
        return self.policy._keys(columns, self.demand, rows)

    def at_row(self, columns: ScoreColumns, row: int) -> int:
        return int(self.at(columns, np.array([row]))[0])


def _drawn(turn: int, which: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Pseudo-random numbers, one for each of `which`."""
    mixed: NDArray[np.uint64] = which.astype(np.uint64) * _MIX[0] + np.uint64(turn)
    for shift, factor in ((30, _MIX[1]), (27, _MIX[2])):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * factor
    return mixed ^ (mixed >> np.uint64(31))
