"""Filters that look only at the row: node, room, reachable volumes. One vector of codes per shape, repaired by row."""

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.filters.codes import CODE, NO_NODE, Codes, first_of
from ullage.decide.placement.filters.masks import Mask, all_rows, tolerable, wanted
from ullage.decide.placement.filters.mounts import VolumeRequirements, mounts_of
from ullage.decide.placement.filters.node import NODE_RULES, NOT_READY, UNSCHEDULABLE
from ullage.decide.placement.filters.volumes import volume_code, volume_codes
from ullage.model.shape import Shape
from ullage.model.shape_terms import tolerated
from ullage.model.verdict import Reason
from ullage.state.node_columns import UNOFFERED
from ullage.state.snapshot import ClusterSnapshot

_PORT = CODE[Reason.HOST_PORT_TAKEN]
_SMALL = CODE[Reason.NODE_TOO_SMALL]
_FULL = CODE[Reason.TOO_MANY_PODS]
_SHORT = CODE[Reason.INSUFFICIENT_RESOURCES]

_FEW = 8
"""Number of changes up to which rows are filtered one by one: cheaper than all at once."""

Rows = npt.NDArray[np.intp] | slice


class RowFilters:
    """Codes over rows for one shape; `refresh` makes them equal to the snapshot."""

    def __init__(self, shape: Shape, placements: ClusterSnapshot) -> None:
        self.shape = shape
        self._placements = placements
        self._renewed = self._changed = self._volumes_version = 0
        self._rebuild()

    def refresh(self) -> Codes:
        """Current codes. Read-only, and valid until a change."""
        columns = self._placements.columns
        if self._changed != columns.changed.version or self._outgrown():
            self._repair()
        if len(self._shown) != columns.size:
            self._show()
        return self._shown

    def fits(self, row: int) -> bool:
        """True if one row fits. Does not repair the codes of other rows."""
        self._renew_all()
        return not self._judge(row)

    def fitting(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Those of these rows that fit. Does not repair codes either."""
        self._renew_all()
        columns = self._placements.columns
        rows = rows[self._able.take(rows)]
        room = columns.pods.take(rows) < columns.most_pods.take(rows)
        for index, amount in self._needs:
            room &= columns.allocatable[index].take(rows) - columns.used[index].take(rows) >= amount
        for port in self.shape.host_ports:
            room &= ~np.isin(rows, list(self._placements.ports.taken(port)))
        return rows[room]

    def _renew_all(self) -> None:
        """Filter again the nodes whose facts changed."""
        columns = self._placements.columns
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
        columns = self._placements.columns
        self._renew_all()
        changed = columns.changed.since(self._changed) if columns.changed.version - self._changed <= _FEW else None
        if changed is None:
            self._fill(columns.changed.rows_since(self._changed, columns.size))
        else:
            for row in changed:
                self._codes[row] = self._judge(row)
        self._changed = columns.changed.version

    def _show(self) -> None:
        self._shown = self._codes[: self._placements.columns.size]
        self._shown.flags.writeable = False

    def _outgrown(self) -> bool:
        columns = self._placements.columns
        if len(self._codes) < columns.size or (self._unoffered and self._offered != len(columns.resources)):
            return True
        return bool(self.shape.claims) and self._volumes_version != self._placements.volumes_version

    def _rebuild(self) -> None:
        """Build everything anew, all rows at once."""
        placements, columns = self._placements, self._placements.columns
        self._needs = columns.needs(self.shape.requests)
        self._unoffered, self._offered = any(index == UNOFFERED for index, _ in self._needs), len(columns.resources)
        self.mounts: VolumeRequirements = mounts_of(self.shape, placements.storage)
        self._node: Codes = np.full(columns.capacity, NO_NODE, np.uint8)
        self._node[: columns.size] = node_codes(self.shape, placements)
        self._small: Mask = np.zeros(columns.capacity, np.bool_)
        self._small[: columns.size] = self._too_small()
        self._able: Mask = (self._node == 0) & ~self._small
        """Rows that would fit without any pod on them."""
        self._volume: Codes | None = None
        if self.shape.claims:
            self._volume = np.zeros(columns.capacity, np.uint8)
            self._volume[: columns.size] = volume_codes(self.mounts, placements)
            self._able &= self._volume == 0
        self._codes: Codes = np.full(columns.capacity, NO_NODE, np.uint8)
        self._show()
        self._volumes_version = placements.volumes_version
        # Codes are written when a caller needs reasons; `fits` and `fitting` do without them.
        self._renewed, self._changed = columns.renewed.version, -1

    def _too_small(self) -> Mask:
        columns = self._placements.columns
        small = ~all_rows(self._placements)
        for index, amount in self._needs:
            small |= columns.allocatable[index, : columns.size] < amount
        return small

    def _fill(self, rows: Rows) -> None:
        """Write the codes of these rows from the cached node results and current room."""
        columns = self._placements.columns
        full = columns.pods[rows] >= columns.most_pods[rows]
        short = np.zeros(len(full), np.bool_)
        for index, amount in self._needs:
            short |= columns.allocatable[index][rows] - columns.used[index][rows] < amount
        room = np.zeros(len(full), np.uint8) if self._volume is None else self._volume[rows].copy()
        room[short] = _SHORT
        room[full] = _FULL
        room[self._small[rows]] = _SMALL
        for port in self.shape.host_ports:
            taken = np.zeros(columns.capacity, np.bool_)
            taken[list(self._placements.ports.taken(port))] = True
            room[taken[rows]] = _PORT
        self._codes[rows] = first_of(self._node[rows], room)

    def _renew(self, row: int) -> None:
        """Filter the node of a row again: it is another node, or its facts changed."""
        columns = self._placements.columns
        name = columns.names[row]
        if not name:
            self._node[row], self._small[row], self._able[row] = NO_NODE, False, False
            return
        node = self._placements.state.nodes[name]
        verdicts = (rule(self.shape, node) for rule in NODE_RULES)
        self._node[row] = next((CODE[verdict.reason] for verdict in verdicts if verdict is not None), 0)
        self._small[row] = any(columns.allocatable[index, row] < amount for index, amount in self._needs)
        if self._volume is not None:
            self._volume[row] = volume_code(self.mounts, node, self._placements)
        able = not self._node.item(row) and not self._small.item(row)
        self._able[row] = able and (self._volume is None or not self._volume.item(row))

    def _judge(self, row: int) -> int:
        """Code of one row from the cached node results and current room."""
        code = self._node.item(row)
        if code:
            return code
        columns, ports = self._placements.columns, self._placements.ports
        for port in self.shape.host_ports:
            if ports.is_taken(port, row):
                return _PORT
        if self._small.item(row):
            return _SMALL
        if columns.pods.item(row) >= columns.most_pods.item(row):
            return _FULL
        for index, amount in self._needs:
            if columns.allocatable.item(index, row) - columns.used.item(index, row) < amount:
                return _SHORT
        return 0 if self._volume is None else self._volume.item(row)


def node_codes(shape: Shape, placements: ClusterSnapshot) -> Codes:
    """Codes of `NODE_RULES` for all rows at once. The first rule is written last, so that it wins."""
    columns = placements.columns
    size = columns.size
    codes = np.zeros(size, np.uint8)
    codes[~wanted(shape, placements)] = CODE[Reason.NODE_SELECTOR_MISMATCH]
    codes[~tolerable(shape, placements)] = CODE[Reason.TAINT_NOT_TOLERATED]
    if not tolerated(NOT_READY, shape.tolerations):
        codes[columns.unready[:size]] = CODE[Reason.NODE_NOT_READY]
    if not tolerated(UNSCHEDULABLE, shape.tolerations):
        codes[columns.unschedulable[:size]] = CODE[Reason.NODE_UNSCHEDULABLE]
    if shape.node_name:
        named = columns.rows.get(shape.node_name)
        others = np.arange(size) != (-1 if named is None else named)
        codes[others] = CODE[Reason.NOT_THE_NODE_NAMED]
    codes[~columns.alive[:size]] = NO_NODE
    return codes
