"""The default policy: put a pod where it spoils least of the idle GPU that the pods to come could use.

A level is minus what the placement spoils (usable GPU lost beyond what the pod takes) and what it pays for a scarce
model, in steps of five thousandths of a GPU: finer differences are noise, and ties are better broken by filling up
nodes. Each level is remembered with the stamp of its row and computed again only where the row has changed since; and
nodes pass through the same states again and again, so that levels are remembered by state, too.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ullage.decide.score.columns import NEVER, Flags, GpuColumns, GpuDemand, Keys, keyed
from ullage.decide.score.mix import Typical
from ullage.decide.score.scarcity import price, scarcity
from ullage.decide.score.states import UNSEEN, NodeStates
from ullage.decide.score.usable import Measure, Rows

STEP = 5.0
MOST_DEMANDS = 1024
"""Demands whose keys are kept; the one not asked for longest goes first."""
MOST_STATES = 16_384
"""States of nodes a demand is remembered by."""

_NUDGE = 1e-3
"""Added before rounding down, so that sums that differ in their last bit do not fall on both sides of a step."""
_FEW = 16
"""Up to so many changed rows are looked up by state one by one; more are faster computed together."""

_NodeState = tuple[bytes, int, int]


@dataclass(frozen=True, slots=True)
class _Remembered:
    """Keys of one demand on every row, the stamps they were computed at, and the same by the state of the node."""

    paid: NDArray[np.float64]
    keys: Keys
    devices: NDArray[np.int8]
    seen: NDArray[np.int64]
    by_state: dict[_NodeState, tuple[int, int]] = field(default_factory=dict)


class Fragmentation:
    """Levels under one mix of typical pods. A new mix is a new object."""

    def __init__(self, typical: Typical, capacity: NDArray[np.float64]) -> None:
        """`capacity` is the number of GPUs of each model in the cluster."""
        self._scarce = scarcity(typical, capacity)
        self._states = NodeStates(Measure(typical, len(capacity)))
        self._remembered: dict[GpuDemand, _Remembered] = {}

    def keys(self, columns: GpuColumns, demand: GpuDemand, fits: Flags) -> Keys:
        """Levels are minus the steps of what is spoilt and paid."""
        known = self._recall(demand, len(columns.stamp))
        stale = ((known.seen != columns.stamp) & fits).nonzero()[0]
        if 0 < len(stale) <= _FEW:
            new = [row for row in stale.tolist() if not _repeat(known, columns, row)]
            if new:
                self._compute(known, columns, demand, np.array(new))
                for row in new:
                    _note(known, columns, row)
        elif len(stale):
            self._compute(known, columns, demand, stale)
        return known.keys

    def device(self, columns: GpuColumns, demand: GpuDemand, row: int) -> int:
        """The device whose share spoils least."""
        return int(self._recall(demand, len(columns.stamp)).devices[row])

    def _compute(self, known: _Remembered, columns: GpuColumns, demand: GpuDemand, rows: Rows) -> None:
        self._states.refresh(columns)
        spoilt, known.devices[rows] = self._states.spoilt(columns, demand, rows)
        spoilt += known.paid[columns.model[rows]]
        levels = np.floor((_NUDGE - spoilt) / STEP).astype(np.int64)
        known.keys[rows] = keyed(levels, columns.gpu_left[rows].sum(axis=1))
        known.seen[rows] = columns.stamp[rows]

    def _recall(self, demand: GpuDemand, rows: int) -> _Remembered:
        known = self._remembered.pop(demand, None)
        if known is None:
            known = self._blank(demand, rows)
            if len(self._remembered) >= MOST_DEMANDS:
                del self._remembered[next(iter(self._remembered))]
        elif len(known.seen) != rows:
            known = _resized(known, self._blank(demand, rows))
        self._remembered[demand] = known
        return known

    def _blank(self, demand: GpuDemand, rows: int) -> _Remembered:
        return _Remembered(
            price(demand, self._scarce),
            np.full(rows, NEVER),
            np.full(rows, -1, dtype=np.int8),
            np.full(rows, UNSEEN, dtype=np.int64),
        )


def _resized(old: _Remembered, blank: _Remembered) -> _Remembered:
    """What is known of the rows that are still there, written on a blank of the new length."""
    kept = min(len(old.seen), len(blank.seen))
    blank.keys[:kept] = old.keys[:kept]
    blank.devices[:kept] = old.devices[:kept]
    blank.seen[:kept] = old.seen[:kept]
    blank.by_state.update(old.by_state)
    return blank


def _repeat(known: _Remembered, columns: GpuColumns, row: int) -> bool:
    """Whether a node in the same state was seen before; then the row gets its key."""
    found = known.by_state.get(_state(columns, row))
    if found is None:
        return False
    known.keys[row], known.devices[row] = found
    known.seen[row] = columns.stamp[row]
    return True


def _note(known: _Remembered, columns: GpuColumns, row: int) -> None:
    if len(known.by_state) >= MOST_STATES:
        known.by_state.clear()
    known.by_state[_state(columns, row)] = (int(known.keys[row]), int(known.devices[row]))


def _state(columns: GpuColumns, row: int) -> _NodeState:
    return columns.gpu_left[row].tobytes(), int(columns.cpu_left[row]), int(columns.model[row])
