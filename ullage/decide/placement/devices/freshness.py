"""Stale inventories: rows whose report is too old, and a log of rows that became stale or fresh."""

import numpy as np
import numpy.typing as npt

from ullage.model.units import Instant, Seconds
from ullage.state.change_log import ChangeLog
from ullage.state.device_columns import NodeKindCode
from ullage.state.snapshot import ClusterSnapshot

STALE_AFTER = Seconds(90.0)
"""Age in seconds after which a node's inventory is stale."""

_FEW = 16


class InventoryFreshness:
    """Staleness of inventories by row. Only leased nodes can be stale; counted nodes rely on kubelet's count."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._version = -1
        self._now = -np.inf
        self._oldest = np.inf
        """Lower bound of the report times of fresh leased rows."""
        self.stale: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        """By row: True if stale at the last `refresh`."""
        self.count = 0
        """Number of stale rows."""
        self.flipped = ChangeLog()
        """Rows that became stale or fresh as time passed, without another change of the row."""

    def refresh(self, now: Instant) -> None:
        """Bring `stale` and `count` up to `now`."""
        columns = self._snapshot.columns
        if self._version == columns.changed.version and self._now <= now <= self._oldest + STALE_AFTER:
            self._now = now
            return
        changed = columns.changed.since(self._version) if self._version >= 0 else None
        if len(self.stale) < columns.size:
            self.stale = np.concatenate((self.stale, np.zeros(columns.capacity - len(self.stale), np.bool_)))
            changed = None
        back_in_time = now < self._now
        self._now = now
        if changed is None or len(changed) > _FEW or back_in_time or self._oldest < now - STALE_AFTER:
            self._check_all(now)
        else:
            for row in changed:
                self._check(row, now)
        self._version = columns.changed.version

    def _check(self, row: int, now: Instant) -> None:
        gpus = self._snapshot.columns.gpus
        reported = gpus.reported_at.item(row)
        leased = gpus.kind.item(row) == NodeKindCode.LEASED
        stale = leased and reported < now - STALE_AFTER
        if leased and not stale:
            self._oldest = min(self._oldest, reported)
        if stale != self.stale.item(row):
            self.stale[row] = stale
            self.count += 1 if stale else -1

    def _check_all(self, now: Instant) -> None:
        columns = self._snapshot.columns
        leased = columns.gpus.kind[: columns.size] == NodeKindCode.LEASED
        reported = columns.gpus.reported_at[: columns.size]
        stale = leased & (reported < now - STALE_AFTER)
        for row in np.flatnonzero(stale != self.stale[: columns.size]).tolist():
            self.flipped.touch(row)
        self.stale[: columns.size] = stale
        self.count = int(np.count_nonzero(stale))
        self._oldest = float(reported[leased & ~stale].min(initial=np.inf))
