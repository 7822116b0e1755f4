"""The default policy: put a pod where it spoils least of the idle GPU that the pods to come could use.

A level is minus what the placement spoils (usable GPU lost beyond what the pod takes) and what it pays for a scarce
model, in steps of five thousandths of a GPU: finer differences are noise, and ties are better broken by filling up
nodes. Keys are remembered with the stamp of their row, and by the state of the node: only rows that have changed since
are looked at again, and only states not met before are computed.
"""

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

_NUDGE = 1e-3
"""Added before rounding down, so that sums that differ in their last bit do not fall on both sides of a step."""
_UNKNOWN = NEVER


class Fragmentation:
    """Levels under one mix of typical pods. A new mix is a new object."""

    def __init__(self, typical: Typical, capacity: NDArray[np.float64]) -> None:
        """`capacity` is the number of GPUs of each model in the cluster."""
        self._scarce = scarcity(typical, capacity)
        self._states = NodeStates(Measure(typical, len(capacity)))
        self._remembered: dict[GpuDemand, _Remembered] = {}

    def keys(self, columns: GpuColumns, demand: GpuDemand, fits: Flags) -> Keys:
        """Levels are minus the steps of what is spoilt and paid."""
        known = self._recall(demand)
        known.resize(len(columns.stamp))
        stale = ((known.seen != columns.stamp) & fits).nonzero()[0]
        if len(stale):
            numbers = self._states.numbers(columns, stale)
            known.make_room(self._states)
            new = numbers[known.key_of_state[numbers] == _UNKNOWN]
            if len(new):
                self._compute(known, demand, np.unique(new))
            known.keys[stale] = known.key_of_state[numbers]
            known.seen[stale] = columns.stamp[stale]
        return known.keys

    def keys_at(self, columns: GpuColumns, demand: GpuDemand, rows: NDArray[np.intp]) -> Keys:
        numbers = self._states.numbers(columns, rows)
        known = self._recall(demand)
        known.make_room(self._states)
        keys: Keys = known.key_of_state[numbers]
        new = numbers[keys == _UNKNOWN]
        if not len(new):
            return keys
        self._compute(known, demand, np.unique(new))
        found: Keys = known.key_of_state[numbers]
        return found

    def key_at(self, columns: GpuColumns, demand: GpuDemand, row: int) -> int:
        number = self._states.number(columns, row)
        known = self._recall(demand)
        known.make_room(self._states)
        key = known.key_of_state.item(number)
        if key == _UNKNOWN:
            self._compute(known, demand, np.array([number]))
            key = known.key_of_state.item(number)
        return key

    def basis(self, columns: GpuColumns) -> tuple[int, int] | None:
        """A level looks at its own row and at the mix, and a new mix is a new object."""
        return None

    def device(self, columns: GpuColumns, demand: GpuDemand, row: int) -> int:
        """The device whose share spoils least."""
        number = self._states.number(columns, row)
        known = self._recall(demand)
        known.make_room(self._states)
        if known.key_of_state.item(number) == _UNKNOWN:
            self._compute(known, demand, np.array([number]))
        return known.device_of_state.item(number)

    def _compute(self, known: "_Remembered", demand: GpuDemand, numbers: Rows) -> None:
        spoilt, known.device_of_state[numbers] = self._states.spoilt(demand, numbers)
        spoilt += known.paid[self._states.model(numbers)]
        levels = np.floor((_NUDGE - spoilt) / STEP).astype(np.int64)
        known.key_of_state[numbers] = keyed(levels, self._states.idle(numbers))

    def _recall(self, demand: GpuDemand) -> "_Remembered":
        known = self._remembered.pop(demand, None)
        if known is None:
            known = _Remembered(price(demand, self._scarce))
            if len(self._remembered) >= MOST_DEMANDS:
                del self._remembered[next(iter(self._remembered))]
        self._remembered[demand] = known
        return known


class _Remembered:
    """What is known of one demand: by row, with the stamp it was known at, and by the number of a node's state."""

    def __init__(self, paid: NDArray[np.float64]) -> None:
        self.paid = paid
        """By model."""
        self.keys: Keys = np.empty(0, dtype=np.int64)
        self.seen: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.key_of_state: Keys = np.empty(0, dtype=np.int64)
        self.device_of_state: NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self._generation = 0

    def resize(self, rows: int) -> None:
        """Nodes came or went; what is known of the rows that stay, stays."""
        kept = min(rows, len(self.seen))
        if kept == rows == len(self.seen):
            return
        self.keys = np.concatenate((self.keys[:kept], np.full(rows - kept, NEVER)))
        self.seen = np.concatenate((self.seen[:kept], np.full(rows - kept, UNSEEN)))

    def make_room(self, states: NodeStates) -> None:
        """For all states there are; numbers of an older generation mean nothing now."""
        known = len(self.key_of_state) if self._generation == states.generation else 0
        self._generation = states.generation
        if 0 < states.count <= known:
            return
        size = max(2 * known, states.count, 64)
        self.key_of_state = np.concatenate((self.key_of_state[:known], np.full(size - known, _UNKNOWN)))
        self.device_of_state = np.concatenate((self.device_of_state[:known], np.full(size - known, -1, dtype=np.int8)))
