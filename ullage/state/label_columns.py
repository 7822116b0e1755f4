"""Node labels as columns: for each label key that was asked for, a number per row for the value it has there."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ullage.state.code_table import CodeTable
from ullage.state.forking import Forkable, forked
from ullage.state.node_columns import NodeColumns

ABSENT = -1


class LabelColumn(Forkable):
    """One label: a number per row, `ABSENT` where the node does not have it."""

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.values: CodeTable[str] = CodeTable()
        self.codes: npt.NDArray[np.int32] = np.full(capacity, ABSENT, np.int32)

    def put(self, row: int, value: str | None) -> None:
        before = int(self.codes[row])
        self.codes[row] = ABSENT if value is None else self.values.take(value)
        if before != ABSENT:
            self.values.release(before)

    def grow(self, capacity: int) -> None:
        larger = np.full(capacity, ABSENT, np.int32)
        larger[: len(self.codes)] = self.codes
        self.codes = larger


class LabelColumns:
    """Columns made when first asked for, and kept with the nodes from then on. Ask anew after a node's facts changed.

    A label that no node has is absent everywhere and needs no column of its own: pods name whatever they like.
    """

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._of_key: dict[str, LabelColumn] = {}
        self._on_row: dict[int, Mapping[str, str]] = {}
        self._holders: Counter[str] = Counter()
        """Rows that have a label."""
        self._nowhere = LabelColumn("", 0)

    def fork_for(self, columns: NodeColumns) -> "LabelColumns":
        """Return a copy for the forked columns of nodes."""
        twin = LabelColumns(columns)
        twin._of_key, twin._on_row, twin._holders = forked(self._of_key), self._on_row.copy(), self._holders.copy()
        return twin

    def __len__(self) -> int:
        return len(self._of_key)

    def column(self, key: str) -> LabelColumn:
        if key not in self._holders:
            return self._reaching(self._nowhere)
        found = self._of_key.get(key)
        if found is None:
            found = self._of_key[key] = LabelColumn(key, self._columns.capacity)
            for row, labels in self._on_row.items():
                if key in labels:
                    found.put(row, labels[key])
        return self._reaching(found)

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        """Set the labels of this row's node; empty for a row without a node."""
        before = self._on_row.pop(row, {})
        if labels:
            self._on_row[row] = labels
        for key in labels.keys() - before.keys():
            self._holders[key] += 1
        for key in self._of_key:
            if key in labels or key in before:
                self._reaching(self._of_key[key]).put(row, labels.get(key))
        for key in before.keys() - labels.keys():
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key]
                self._of_key.pop(key, None)

    def _reaching(self, column: LabelColumn) -> LabelColumn:
        if len(column.codes) < self._columns.capacity:
            column.grow(self._columns.capacity)
        return column
