"""Node labels as columns: for each label somebody asked about, a number per row for the value it has there."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ullage.model.node import Node
from ullage.state.codes import Codes
from ullage.state.columns import Columns

ABSENT = -1


class LabelColumn:
    """One label: a number per row, `ABSENT` where the node does not have it."""

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.values: Codes[str] = Codes()
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
    """Columns made when first asked for, and kept with the nodes from then on."""

    def __init__(self, columns: Columns, nodes: Mapping[str, Node]) -> None:
        self._columns = columns
        self._nodes = nodes
        self._of_key: dict[str, LabelColumn] = {}

    def column(self, key: str) -> LabelColumn:
        found = self._of_key.get(key)
        if found is None:
            found = self._of_key[key] = LabelColumn(key, self._columns.capacity)
            for name, row in self._columns.rows.items():
                found.put(row, self._nodes[name].labels.get(key))
        elif len(found.codes) < self._columns.capacity:
            found.grow(self._columns.capacity)
        return found

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        """What the node of this row has now; nothing for a row without a node."""
        for key in self._of_key:
            self.column(key).put(row, labels.get(key))
