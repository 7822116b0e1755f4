"""NodeStateCache: states of nodes, each measured once, and the fragmentation one more pod would add.

Many nodes are in the same state (equal CPU left, equal parts of GPUs left in any order, the same model), and nodes pass
through states that other nodes were in before. So states are numbered as they are met, and computed once per number.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ullage.decide.placement.score.fragmentation_measure import Amounts, FragmentationMeasure, Rows, UsableGpus
from ullage.decide.placement.score.gpu_scorer import GpuDemand, ScoreColumns
from ullage.model.device import MILLI_GPU

UNSEEN = -1
"""A stamp no row has."""
NO_ROOM = 1e9
"""Added fragmentation if no device has room for the pod: more than any node has."""
MOST_STATES = 16_384
"""Numbering starts again beyond this many states, or four per node if that is more."""

_SAME = 1e-6
_FEW = 4
"""Number of rows up to which keys are made one by one: cheaper than all at once."""

StateKey = tuple[bytes, int, int]
"""State of a row: sorted free parts of GPUs, CPU left, model."""

Spoilt = tuple[Amounts, NDArray[np.int64] | None]
"""Added fragmentation by state, in thousandths, and free thousandths of the device a share should take.

Fragmentation is added by usable GPU lost beyond what the pod takes. In the second array -1 stands for any device; None
stands for any device in all of these states.
"""


class NodeStateCache:
    """State numbers of all rows, brought up to date by stamp."""

    def __init__(self, measure: FragmentationMeasure) -> None:
        self._measure = measure
        self._seen = np.empty(0, dtype=np.int64)
        self._of_row = np.empty(0, dtype=np.int64)
        """State number of each row at its last `look`."""
        self.generation = 0
        """Counter of numberings. After a change earlier numbers are invalid."""
        self._forget(0)

    @property
    def count(self) -> int:
        """Number of states; they are numbered from 0."""
        return len(self._numbers)

    def look(self, columns: ScoreColumns, rows: Iterable[int]) -> None:
        """Update the states of these rows where their stamp changed."""
        self._reach(columns)
        stale = [row for row in rows if self._seen.item(row) != columns.stamp.item(row)]
        new: list[tuple[int, StateKey]] = []
        for row, key in _keys(columns, stale):
            known = self._numbers.get(key)
            if known is None:
                new.append((row, key))
            else:
                self._of_row[row], self._seen[row] = known, columns.stamp.item(row)
        if not new:
            return
        if self.count > max(MOST_STATES, 4 * len(self._seen)):
            self._forget(columns.gpu_left.shape[1])
            new = list(_keys(columns, list(range(len(columns.stamp)))))
        self._number(columns, new)
        looked_at = [row for row, _ in new]
        self._seen[looked_at] = columns.stamp[looked_at]

    def of_rows(self, rows: Rows) -> NDArray[np.int64]:
        """State numbers of these rows at their last `look`."""
        return self._of_row.take(rows)

    def of_row(self, row: int) -> int:
        return self._of_row.item(row)

    def _reach(self, columns: ScoreColumns) -> None:
        rows = len(columns.stamp)
        if rows == len(self._seen):
            return
        kept = min(len(self._seen), rows)
        self._seen = np.concatenate((self._seen[:kept], np.full(rows - kept, UNSEEN)))
        self._of_row = np.concatenate((self._of_row[:kept], np.zeros(rows - kept, dtype=np.int64)))

    def idle(self, numbers: Rows) -> NDArray[np.int64]:
        """Idle GPU in these states, in thousandths."""
        return self._idle.take(numbers)

    def model(self, numbers: Rows) -> Rows:
        """The GPU model in these states."""
        return self._model.take(numbers)

    def spoilt(self, demand: GpuDemand, numbers: Rows) -> Spoilt:
        """Fragmentation that placing one pod with this demand would add in each of these states."""
        usable, state = self._usable.take(numbers), self._state.at(numbers)
        cpu = state.cpu - demand.cpu
        if not demand.gpus:
            return usable - self._measure.usable(state._replace(cpu=cpu)), None
        model = self._model.take(numbers)
        sizes = np.array(demand.milli, dtype=np.int64).take(model)
        taken = demand.gpus * sizes
        if np.count_nonzero(sizes == MILLI_GPU) == len(sizes):
            # The state is a copy: what the pod takes is taken from it in place.
            np.subtract(state.devices, demand.gpus, out=state.devices)
            np.subtract(state.room, taken[:, None], out=state.room)
            after = UsableGpus(state.devices, state.room, cpu, state.kind)
        elif demand.gpus == 1:
            return self._with_share(self._left[numbers], sizes, state._replace(cpu=cpu), usable)
        else:
            after = self._measure.state(_less_fullest(self._left[numbers], sizes, demand.gpus), cpu, model)
        return usable - self._measure.usable(after) - taken, None

    def _with_share(self, left: Rows, sizes: Rows, state: UsableGpus, usable: Amounts) -> Spoilt:
        """Try a share on each device of a node. Devices with equal free parts are tried once; the fullest wins ties."""
        candidate = left >= sizes[:, None]
        candidate[:, 1:] &= left[:, 1:] != left[:, :-1]
        place, slot = np.nonzero(candidate)
        before = left[place, slot]
        after = before - sizes[place]
        state = state.at(place)
        devices, room = self._measure.device_table, self._measure.room_table
        state = state._replace(
            devices=state.devices + devices[state.kind, after] - devices[state.kind, before],
            room=state.room + room[state.kind, after] - room[state.kind, before],
        )
        lost = usable[place] - self._measure.usable(state) - sizes[place]
        least = np.full(len(left), NO_ROOM)
        np.minimum.at(least, place, lost)
        chosen = np.flatnonzero(lost <= least[place] + _SAME)[::-1]
        amount = np.full(len(left), -1, dtype=np.int64)
        # Written from the emptiest to the fullest, so that the fullest of equals stays.
        amount[place[chosen]] = before[chosen]
        return least, amount

    def _number(self, columns: ScoreColumns, rows: list[tuple[int, StateKey]]) -> None:
        """Set the state number of each row, and measure states not met before."""
        first = self.count
        new: list[int] = []
        for row, key in rows:
            number = self._numbers.setdefault(key, len(self._numbers))
            if number == first + len(new):
                new.append(row)
            self._of_row[row] = number
        if not new:
            return
        left, cpu, model = np.sort(columns.gpu_left[new], axis=1), columns.cpu_left[new], columns.model[new]
        self._make_room(self.count, left.shape[1])
        numbers = slice(first, self.count)
        state = self._measure.state(left, cpu, model)
        self._state.put(numbers, state)
        self._usable[numbers] = self._measure.usable(state)
        self._left[numbers], self._model[numbers] = left, model
        self._idle[numbers] = left.sum(axis=1)

    def _forget(self, width: int) -> None:
        self.generation += 1
        self._numbers: dict[StateKey, int] = {}
        self._state = self._measure.no_state(0)
        self._usable: Amounts = np.empty(0)
        self._left = np.empty((0, width), dtype=np.int64)
        self._model = np.empty(0, dtype=np.int64)
        self._idle = np.empty(0, dtype=np.int64)

    def _make_room(self, count: int, width: int) -> None:
        known = len(self._usable)
        if known >= count:
            return
        size = max(2 * known, count, 64)
        old, old_left = self._state, self._left
        self._state = self._measure.no_state(size)
        self._state.put(slice(known), old)
        self._usable = np.concatenate((self._usable, np.zeros(size - known)))
        self._model = np.concatenate((self._model, np.zeros(size - known, dtype=np.int64)))
        self._idle = np.concatenate((self._idle, np.zeros(size - known, dtype=np.int64)))
        self._left = np.zeros((size, width), dtype=np.int64)
        self._left[:known, : old_left.shape[1]] = old_left


def _keys(columns: ScoreColumns, rows: list[int]) -> Iterable[tuple[int, StateKey]]:
    """Rows with the keys of their states."""
    if len(rows) <= _FEW:
        return [(row, _key(columns, row)) for row in rows]
    left = np.sort(columns.gpu_left[rows], axis=1)
    parts: list[bytes] = left.view(f"V{left.shape[1] * left.itemsize}")[:, 0].tolist()
    return zip(
        rows, zip(parts, columns.cpu_left[rows].tolist(), columns.model[rows].tolist(), strict=True), strict=True
    )


def _key(columns: ScoreColumns, row: int) -> StateKey:
    left = columns.gpu_left[row].copy()
    left.sort()
    return left.tobytes(), columns.cpu_left.item(row), columns.model.item(row)


def _less_fullest(left: Rows, sizes: Rows, count: int) -> Rows:
    """Free parts after taking a share from each of the `count` fullest devices with room for it."""
    roomy = left >= sizes[:, None]
    order = np.argsort(np.where(roomy, left, MILLI_GPU + 1), axis=1, kind="stable")[:, :count]
    remaining = left.astype(np.int64)
    np.put_along_axis(remaining, order, np.take_along_axis(remaining, order, axis=1) - sizes[:, None], axis=1)
    return np.maximum(remaining, 0)
