"""The default policy: put a pod where it spoils least of the idle GPU that the pods to come could use.

A level is minus what the placement spoils (usable GPU lost beyond what the pod takes) and what it pays for a scarce
model, in steps of five thousandths of a GPU: finer differences are noise, and ties are better broken by filling up
nodes. Each level is remembered with the stamp of its row and computed again only where the row has changed since.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.decide.score.columns import NEVER, Flags, GpuColumns, GpuDemand, Levels
from ullage.decide.score.mix import Typical
from ullage.decide.score.scarcity import price, scarcity
from ullage.decide.score.states import UNSEEN, NodeStates
from ullage.decide.score.usable import Measure

STEP = 5.0
MOST_REMEMBERED = 1024
"""Demands whose levels are kept; the one not asked for longest goes first."""

_NUDGE = 1e-3
"""Added before rounding down, so that sums that differ in their last bit do not fall on both sides of a step."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    """Levels of one demand on every row, and the stamps they were computed at."""

    paid: NDArray[np.float64]
    levels: Levels
    devices: NDArray[np.int8]
    seen: NDArray[np.int64]


class Fragmentation:
    """Levels under one mix of typical pods. A new mix is a new object."""

    def __init__(self, typical: Typical, capacity: NDArray[np.float64]) -> None:
        """`capacity` is the number of GPUs of each model in the cluster."""
        self._scarce = scarcity(typical, capacity)
        self._states = NodeStates(Measure(typical, len(capacity)))
        self._remembered: dict[GpuDemand, _Remembered] = {}

    def levels(self, columns: GpuColumns, demand: GpuDemand, fits: Flags) -> Levels:
        """Minus steps of what is spoilt and paid."""
        self._states.refresh(columns)
        known = self._recall(demand, len(columns.stamp))
        stale = np.flatnonzero((known.seen != columns.stamp) & fits)
        if len(stale):
            spoilt, known.devices[stale] = self._states.spoilt(columns, demand, stale)
            paid = known.paid[columns.model[stale]]
            known.levels[stale] = np.floor((_NUDGE - spoilt - paid) / STEP)
            known.seen[stale] = columns.stamp[stale]
        return known.levels

    def device(self, columns: GpuColumns, demand: GpuDemand, row: int) -> int:
        """The device whose share spoils least."""
        return int(self._recall(demand, len(columns.stamp)).devices[row])

    def _recall(self, demand: GpuDemand, rows: int) -> _Remembered:
        known = self._remembered.pop(demand, None)
        if known is None or len(known.seen) != rows:
            known = self._blank(demand, rows)
            if len(self._remembered) >= MOST_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
        self._remembered[demand] = known
        return known

    def _blank(self, demand: GpuDemand, rows: int) -> _Remembered:
        return _Remembered(
            price(demand, self._scarce),
            np.full(rows, NEVER),
            np.full(rows, -1, dtype=np.int8),
            np.full(rows, UNSEEN, dtype=np.int64),
        )
