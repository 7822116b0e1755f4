"""Scores by use of a node's CPU and memory, as kube-scheduler computes them by default.

They are cached per shape and repaired by row; the arithmetic is written once for all rows and once for one.
"""

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.score.kube.scale import MOST, Points
from ullage.model.resources import MILLI
from ullage.model.shape import Shape
from ullage.state.node_columns import MOST_COUNTED
from ullage.state.snapshot import ClusterSnapshot

Amounts = npt.NDArray[np.int64]
"""First axis: cpu in thousandths of a core, memory in bytes. Second axis: rows."""

_UNITS = (("cpu", 1), ("memory", MILLI))
_MANY = 16
"""Number of changes above which rows are scored all at once: cheaper than one by one."""


class ResourceScores:
    """Points of all rows for one shape: `fullness` (empty nodes are better, or full ones), and `balance`."""

    def __init__(self, shape: Shape, snapshot: ClusterSnapshot, *, full_is_better: bool = False) -> None:
        asked = dict(shape.requests)
        self._own = tuple(min(asked.get(name, 0), MOST_COUNTED) // unit for name, unit in _UNITS)
        self._scored = (min(shape.scored_cpu, MOST_COUNTED), min(shape.scored_memory, MOST_COUNTED))
        self._full_is_better = full_is_better
        self._snapshot = snapshot
        self._version = -1
        self.fullness: Points = np.zeros(0, np.int64)
        self.balance: Points = np.zeros(0, np.int64)

    def refresh(self) -> None:
        """Bring `fullness` and `balance` up to date."""
        columns = self._snapshot.columns
        if len(self.fullness) != columns.size:
            self.fullness, self.balance = np.zeros(columns.size, np.int64), np.zeros(columns.size, np.int64)
            self._version = -1
        few = self._version >= 0 and columns.changed.version - self._version <= _MANY
        changed = columns.changed.since(self._version) if few else None
        if changed is None:
            self._some(columns.changed.rows_since(self._version, columns.size))
        else:
            for row in changed:
                self._one(row)
        self._version = columns.changed.version

    def _some(self, rows: npt.NDArray[np.intp]) -> None:
        columns = self._snapshot.columns
        units = np.array([[unit] for _, unit in _UNITS])
        indices = np.array([[columns.resource(name)] for name, _ in _UNITS])
        offered = columns.allocatable[indices, rows] // units
        used = columns.used[indices, rows] // units
        scored = np.stack((columns.scored_cpu[rows] + self._scored[0], columns.scored_memory[rows] + self._scored[1]))
        self.fullness[rows] = _fullness(offered, scored // units, full_is_better=self._full_is_better)
        if any(self._own):  # pods that ask for nothing would all go to one node
            after, before = _evenness(used + np.array([self._own]).T, offered), _evenness(used, offered)
            self.balance[rows] = MOST // 2 + (MOST // 2 + after - before) // 2

    def _one(self, row: int) -> None:
        columns = self._snapshot.columns
        indices = [columns.resource(name) for name, _ in _UNITS]
        offered = [columns.allocatable.item(i, row) // unit for i, (_, unit) in zip(indices, _UNITS, strict=True)]
        scored = (
            columns.scored_cpu.item(row) + self._scored[0],
            (columns.scored_memory.item(row) + self._scored[1]) // MILLI,
        )
        points = [self._fullness_of(o, wanted) for o, wanted in zip(offered, scored, strict=True) if o]
        self.fullness[row] = sum(points) // max(len(points), 1)
        if any(self._own):
            used = [columns.used.item(i, row) // unit for i, (_, unit) in zip(indices, _UNITS, strict=True)]
            after = _evenness_of([u + own for u, own in zip(used, self._own, strict=True)], offered)
            self.balance[row] = MOST // 2 + (MOST // 2 + after - _evenness_of(used, offered)) // 2

    def _fullness_of(self, offered: int, wanted: int) -> int:
        if self._full_is_better:
            return min(wanted, offered) * MOST // offered
        return 0 if wanted > offered else (offered - wanted) * MOST // offered


def _fullness(offered: Amounts, wanted: Amounts, *, full_is_better: bool) -> Points:
    """Fullness points: the mean over the resources that the node has."""
    some = np.maximum(offered, 1)
    if full_is_better:
        points = np.minimum(wanted, offered) * MOST // some
    else:
        points = np.where(wanted > offered, 0, (offered - wanted) * MOST // some)
    has = offered > 0
    mean: Points = (points * has).sum(axis=0) // np.maximum(has.sum(axis=0), 1)
    return mean


def _evenness(used: Amounts, offered: Amounts) -> Points:
    """Evenness points: 100 if the used parts of CPU and memory are equal."""
    shares = np.minimum(used / np.maximum(offered, 1), 1.0)
    apart = np.abs((shares[0] - shares[1]) / 2)
    apart[(offered == 0).any(axis=0)] = 0.0
    points: Points = ((1 - apart) * MOST).astype(np.int64)
    return points


def _evenness_of(used: list[int], offered: list[int]) -> int:
    if not all(offered):
        return MOST
    cpu, memory = (min(u / o, 1.0) for u, o in zip(used, offered, strict=True))
    return int((1 - abs((cpu - memory) / 2)) * MOST)
