"""Change log of rows: a cache repairs only the rows that changed since its version."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ullage.state.forking import Forkable

_REMEMBERED = 8192
"""Changes kept in order. A cache further behind is rebuilt, which costs less than that many repairs."""


class ChangeLog(Forkable):
    """A version that grows with every change, and the row of each recent one."""

    def __init__(self) -> None:
        self.version = 0
        self.of_row: npt.NDArray[np.int64] = np.zeros(64, np.int64)
        """The version at which each row last changed."""
        self._rows: list[int] = []
        self._found: tuple[tuple[int, int, int], npt.NDArray[np.intp]] = ((0, 0, 0), np.zeros(0, np.intp))
        """The last answer of `rows_since`: caches behind by equally much ask one after the other."""
        self._shared = False
        """True while a fork has the same `of_row` and `_rows`: the first to write makes its own."""

    def fork(self) -> "ChangeLog":
        """Return an independent copy. There may be hundreds of logs, of which a plan changes a few."""
        self._shared = True
        twin = object.__new__(ChangeLog)
        vars(twin).update(vars(self))
        return twin

    def touch(self, row: int) -> None:
        if self._shared:
            self.of_row, self._rows, self._shared = self.of_row.copy(), self._rows.copy(), False
        self.version += 1
        if row >= len(self.of_row):
            self.of_row = grown(self.of_row, row + 1)
        self.of_row[row] = self.version
        self._rows.append(row)
        if len(self._rows) > 2 * _REMEMBERED:
            del self._rows[:_REMEMBERED]

    def since(self, version: int) -> Sequence[int] | None:
        """Rows changed after `version`, each once, in the order of their first change; None if that is too long ago."""
        behind = self.version - version
        if behind == 0:
            return ()
        if behind > len(self._rows):
            return None
        if behind == 1:
            return self._rows[-1:]
        return tuple(dict.fromkeys(self._rows[-behind:]))

    def rows_since(self, version: int, size: int) -> npt.NDArray[np.intp]:
        """Rows below `size` changed after `version`, ascending, however long ago that is. Not to be written to."""
        asked = (self.version, version, size)
        if self._found[0] != asked:
            self._found = (asked, (self.of_row[:size] > version).nonzero()[0])
        return self._found[1]


def grown(array: npt.NDArray[np.int64], least: int) -> npt.NDArray[np.int64]:
    """Return the same numbers with room for at least this many, padded with zeros."""
    larger = np.zeros(max(least, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger
