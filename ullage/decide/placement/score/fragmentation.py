"""FragmentationScorer, the default policy: place a pod where it adds least fragmentation for the pods to come.

A level is minus the sum of the added fragmentation (usable GPU lost beyond what the pod takes) and the price of a
scarce model, in steps of five thousandths of a GPU. Finer differences are noise, and ties are better broken by filling
up nodes. Keys are cached by row with its stamp, and by the state of the node: only rows that have changed since are
looked at again, and only states not met before are computed.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ullage.decide.placement.score.fragmentation_measure import FragmentationMeasure
from ullage.decide.placement.score.fragmentation_states import UNSEEN, NodeStateCache
from ullage.decide.placement.score.gpu_scorer import NEVER, DemandScores, Flags, GpuDemand, Keys, ScoreColumns, keyed
from ullage.decide.placement.score.scarcity import price, scarcity
from ullage.decide.placement.score.workload_mix import TypicalDemands

STEP = 5.0
MOST_DEMANDS = 1024
"""Demands whose keys are cached; beyond this the least recently used one is dropped."""

_NUDGE = 1e-3
"""Amount added before rounding down, so that sums that differ in their last bit fall on the same step."""
_UNKNOWN = NEVER


class FragmentationScorer:
    """Levels under one TypicalDemands. A new mix gets a new scorer."""

    def __init__(self, typical: TypicalDemands, capacity: NDArray[np.float64]) -> None:
        """`capacity` is the number of GPUs of each model in the cluster."""
        self._scarce = scarcity(typical, capacity)
        self._states = NodeStateCache(FragmentationMeasure(typical, len(capacity)))
        self._remembered: dict[GpuDemand, _Remembered] = {}

    def keys(self, columns: ScoreColumns, demand: GpuDemand, fits: Flags) -> Keys:
        """Keys of all rows. Levels are minus the steps of added fragmentation and price."""
        known = self._recall(demand)
        known.resize(len(columns.stamp))
        stale = ((known.seen != columns.stamp) & fits).nonzero()[0]
        if len(stale):
            self._states.look(columns, stale.tolist())
            known.keys[stale] = known.at(columns, stale)
            known.seen[stale] = columns.stamp[stale]
        return known.keys

    def keys_for(self, demand: GpuDemand) -> DemandScores:
        return self._recall(demand)

    def look(self, columns: ScoreColumns, rows: Iterable[int]) -> None:
        self._states.look(columns, rows)

    def basis(self, columns: ScoreColumns) -> tuple[int, int] | None:  # noqa: ARG002 - other policies look at it
        """None: a level depends only on its row and on the mix, and a new mix gets a new scorer."""
        return None

    def device(self, columns: ScoreColumns, demand: GpuDemand, row: int) -> int:
        """Device on which a share adds least fragmentation; -1 for any."""
        self._states.look(columns, (row,))
        left = self._recall(demand).left_on_device(columns, row)
        return -1 if left < 0 else int((columns.gpu_left[row] == left).argmax())

    def _recall(self, demand: GpuDemand) -> "_Remembered":
        known = self._remembered.pop(demand, None)
        if known is None:
            known = _Remembered(demand, price(demand, self._scarce), self._states)
            if len(self._remembered) >= MOST_DEMANDS:
                del self._remembered[next(iter(self._remembered))]
        self._remembered[demand] = known
        return known


class _Remembered:
    """Cached keys of one demand: by the number of a node's state, and by row with the stamp of the row."""

    def __init__(self, demand: GpuDemand, paid: NDArray[np.float64], states: NodeStateCache) -> None:
        self._demand = demand
        self._paid = paid
        """Price by model, in thousandths of a GPU."""
        self._states = states
        self._generation = 0
        self._key_of_state: Keys = np.empty(0, dtype=np.int64)
        self._left_of_state: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """By state: free thousandths of the device a share should take; -1 for any."""
        self.keys: Keys = np.empty(0, dtype=np.int64)
        self.seen: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def at(self, columns: ScoreColumns, rows: NDArray[np.intp]) -> Keys:  # noqa: ARG002 - looked at before
        numbers = self._states.of_rows(rows)
        self._make_room()
        keys: Keys = self._key_of_state.take(numbers)
        unknown = keys == _UNKNOWN
        if np.count_nonzero(unknown):
            self._compute(np.fromiter(dict.fromkeys(numbers[unknown].tolist()), np.int64))
            keys = self._key_of_state.take(numbers)
        return keys

    def at_row(self, columns: ScoreColumns, row: int) -> int:  # noqa: ARG002 - looked at before
        number = self._states.of_row(row)
        self._make_room()
        key = self._key_of_state.item(number)
        if key == _UNKNOWN:
            self._compute(np.array([number]))
            key = self._key_of_state.item(number)
        return key

    def left_on_device(self, columns: ScoreColumns, row: int) -> int:
        """Free thousandths of the device a share should take on this row; -1 for any."""
        self.at_row(columns, row)
        return self._left_of_state.item(self._states.of_row(row))

    def resize(self, rows: int) -> None:
        """Change the number of rows; keys of rows that stay are kept."""
        kept = min(rows, len(self.seen))
        if kept == rows == len(self.seen):
            return
        self.keys = np.concatenate((self.keys[:kept], np.full(rows - kept, NEVER)))
        self.seen = np.concatenate((self.seen[:kept], np.full(rows - kept, UNSEEN)))

    def _compute(self, numbers: NDArray[np.int64]) -> None:
        spoilt, left = self._states.spoilt(self._demand, numbers)
        if left is not None:
            self._left_of_state[numbers] = left
        spoilt += self._paid.take(self._states.model(numbers))
        levels = np.floor((_NUDGE - spoilt) / STEP).astype(np.int64)
        self._key_of_state[numbers] = keyed(levels, self._states.idle(numbers))

    def _make_room(self) -> None:
        """Extend the caches to all states; drop them if the numbering started again."""
        states = self._states
        known = len(self._key_of_state) if self._generation == states.generation else 0
        self._generation = states.generation
        if states.count > known:
            size = max(2 * known, states.count, 64)
            self._key_of_state = np.concatenate((self._key_of_state[:known], np.full(size - known, _UNKNOWN)))
            self._left_of_state = np.concatenate((self._left_of_state[:known], np.full(size - known, -1)))
