"""Sums over domains: number of pods of a kind in each zone, on each host, or for each value of another label."""

import numpy as np
import numpy.typing as npt

from ullage.state.label_columns import LabelColumn
from ullage.state.pod_counts import RowCounts

_FEW = 64
"""Rows that are cheaper to add one by one than all anew."""


class DomainSums:
    """Counts of rows summed by the value of a label, over the rows that take part. Good until a node's facts change."""

    def __init__(self, counts: RowCounts, column: LabelColumn, part: npt.NDArray[np.bool_] | None = None) -> None:
        """`part` marks the rows that take part; those without the label never do."""
        self.counts = counts
        self._codes = column.codes.copy()
        if part is not None:
            self._codes[: len(part)][~part] = -1
        self._seen: npt.NDArray[np.int64] = np.zeros(len(self._codes), np.int64)
        self._version = -1
        self.by_value: npt.NDArray[np.int64] = np.zeros(len(column.values) + 1, np.int64)
        """The last place is for rows without the label, and stays zero."""
        rows = self._codes >= 0
        self.present = np.bincount(self._codes[rows], minlength=len(column.values)) > 0
        """Values that are domains: those with at least one row that takes part."""

    def refresh(self) -> npt.NDArray[np.int64]:
        """The sums as they are now."""
        changed = None if self._version < 0 else self.counts.stamps.since(self._version)
        per_row = self.counts.reach(len(self._codes))
        if changed is None or len(changed) > _FEW:
            self._sum(per_row)
        else:
            for row in changed:
                self._recount(row, per_row)
        self._version = self.counts.stamps.version
        return self.by_value

    def _sum(self, per_row: npt.NDArray[np.int64]) -> None:
        self._seen = per_row[: len(self._codes)].copy()
        rows = self._codes >= 0
        sums = np.bincount(self._codes[rows], weights=self._seen[rows], minlength=len(self.by_value))
        self.by_value = sums.astype(np.int64)

    def _recount(self, row: int, per_row: npt.NDArray[np.int64]) -> None:
        if row < len(self._codes) and self._codes[row] >= 0:
            self.by_value[self._codes[row]] += per_row[row] - self._seen[row]
            self._seen[row] = per_row[row]
