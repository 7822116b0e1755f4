"""Filters that look only at the row: node, room, reachable volumes. One vector of codes per shape, repaired by row.

The order of rules is the order of codes, so the first rule that rejects a row is the one with the smallest code.
"""

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.filters.codes import CODE, NO_NODE, Codes, first_of
from ullage.decide.placement.filters.rule import BoundFilter, Reads
from ullage.decide.placement.filters.rules import ROW_RULES
from ullage.model.shape import Shape
from ullage.state.snapshot import ClusterSnapshot

_FEW = 8
"""Number of changes up to which rows are filtered one by one: cheaper than all at once."""


class RowFilters:
    """Codes over rows for one shape; `refresh` makes them equal to the snapshot."""

    def __init__(self, shape: Shape, snapshot: ClusterSnapshot) -> None:
        self.shape = shape
        self._snapshot = snapshot
        self._renewed = self._changed = 0
        self._rebuild()

    def refresh(self) -> Codes:
        """Current codes. Read-only, and valid until a change."""
        columns = self._snapshot.columns
        if self._changed != columns.changed.version or self._outgrown():
            self._repair()
        if len(self._shown) != columns.size:
            self._show()
        return self._shown

    def fits(self, row: int) -> bool:
        """True if one row fits. Does not repair the codes of other rows."""
        columns = self._snapshot.columns
        if self._expiring or self._renewed != columns.renewed.version or len(self._codes) < columns.size:
            self._renew_all()
        return not self._check(row)

    def fitting(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Those of these rows that fit. Does not repair codes either."""
        self._renew_all()
        rows = rows[self._able.take(rows)]
        rejected: npt.NDArray[np.bool_] | None = None
        for _, bound in self._on_row:
            found = bound.rejects_among(rows)
            if found is not None:
                rejected = found if rejected is None else rejected | found
        return rows if rejected is None else rows[~rejected]

    def rejections(self) -> list[tuple[int, npt.NDArray[np.bool_]]]:
        """Every filter that rejects any row, by code, with the rows it rejects: not only the first for each row."""
        self._renew_all()
        rows = np.arange(self._snapshot.columns.size)
        found = [(code, bound.rejects(rows)) for code, bound in (*self._on_node, *self._on_row)]
        return [(code, mask) for code, mask in found if mask.any()]

    def _renew_all(self) -> None:
        """Filter again the nodes whose facts changed."""
        columns = self._snapshot.columns
        if self._renewed == columns.renewed.version and not self._outgrown():
            return
        renewed = columns.renewed.since(self._renewed)
        if renewed is None or self._outgrown():
            self._rebuild()
            return
        for row in renewed:
            self._renew(row)
        self._renewed = columns.renewed.version

    def _repair(self) -> None:
        columns = self._snapshot.columns
        self._renew_all()
        changed = columns.changed.since(self._changed) if columns.changed.version - self._changed <= _FEW else None
        if changed is None:
            self._fill(columns.changed.rows_since(self._changed, columns.size))
        else:
            for row in changed:
                self._codes[row] = self._check(row)
        self._changed = columns.changed.version

    def _show(self) -> None:
        self._shown = self._codes[: self._snapshot.columns.size]
        self._shown.flags.writeable = False

    def _outgrown(self) -> bool:
        if len(self._codes) < self._snapshot.columns.size:
            return True
        return bool(self._expiring) and not all(bound.current() for bound in self._expiring)

    def _rebuild(self) -> None:
        """Bind the rules anew, and filter the nodes of all rows at once."""
        snapshot, columns = self._snapshot, self._snapshot.columns
        self._on_node: list[tuple[int, BoundFilter]] = []
        """Filters of the node alone, by code, in order."""
        self._on_row: list[tuple[int, BoundFilter]] = []
        """Filters that read what is used on the row."""
        for rule in ROW_RULES:
            bound = rule.bind(self.shape, snapshot)
            if bound is not None:
                (self._on_node if rule.reads is Reads.NODE else self._on_row).append((CODE[rule.reason], bound))
        last, first = self._on_node[-1:], self._on_row[:1]
        self._node_first = not (last and first) or last[0][0] < first[0][0]
        """All filters of the node come before all others, as for most shapes."""
        self._expiring = [bound for _, bound in (*self._on_node, *self._on_row) if bound.expires]
        self._node: Codes = np.full(columns.capacity, NO_NODE, np.uint8)
        """Code of the first filter of the node alone that rejects it."""
        self._node[: columns.size] = self._node_codes()
        self._able: npt.NDArray[np.bool_] = self._node == 0
        """Rows that would fit without any pod on them."""
        self._codes: Codes = np.full(columns.capacity, NO_NODE, np.uint8)
        self._show()
        # Codes are written when a caller needs reasons; `fits` and `fitting` do without them.
        self._renewed, self._changed = columns.renewed.version, -1

    def _node_codes(self) -> Codes:
        """Codes of the node alone for all rows at once. The first rule is written last, so that it wins."""
        columns = self._snapshot.columns
        codes = np.zeros(columns.size, np.uint8)
        for code, bound in reversed(self._on_node):
            bound.mark(codes, code)
        codes[~columns.alive[: columns.size]] = NO_NODE
        return codes

    def _fill(self, rows: npt.NDArray[np.intp]) -> None:
        """Write the codes of these rows from the cached node results and current room."""
        node, room = self._node[rows], np.zeros(len(rows), np.uint8)
        for code, bound in reversed(self._on_row):
            rejected = bound.rejects_among(rows)
            if rejected is not None:
                room[rejected] = code
        if self._node_first:
            self._codes[rows] = first_of(node, room)
            return
        # One less wraps round for 0, which fits: the smaller of two rejections comes first, and any before none.
        codes = np.minimum(node - np.uint8(1), room - np.uint8(1)) + np.uint8(1)
        codes[node == NO_NODE] = NO_NODE
        self._codes[rows] = codes

    def _renew(self, row: int) -> None:
        """Filter the node of a row again: it is another node, or its facts changed."""
        code = NO_NODE
        if self._snapshot.columns.names[row]:
            code = next((code for code, bound in self._on_node if bound.rejects_row(row)), 0)
        self._node[row], self._able[row] = code, not code

    def _check(self, row: int) -> int:
        """Code of one row from the cached node results and current room."""
        found = self._node.item(row)
        if found == NO_NODE:
            return found
        for code, bound in self._on_row:
            if found and found < code:
                break
            if bound.rejects_row(row):
                return code
        return found
