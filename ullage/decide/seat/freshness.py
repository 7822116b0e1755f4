"""Which rows' reports are too old to be believed, and which changed sides since when."""

import numpy as np
import numpy.typing as npt

from ullage.state.gpus import Kind
from ullage.state.placements import Placements
from ullage.state.stamps import Stamps

STALE_AFTER = 90.0
"""Seconds after which a node's inventory is no longer believed."""

_FEW = 16


class Freshness:
    """Leased nodes are believed only while they report; counted ones answer by what kubelet advertises."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self._version = -1
        self._now = -np.inf
        self._oldest = np.inf
        """No report that is believed is older."""
        self.stale: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        """By row, as of the last `refresh`."""
        self.count = 0
        """How many of them."""
        self.flipped = Stamps()
        """Rows that changed sides while time went by and nothing else about them changed."""

    def refresh(self, now: float) -> None:
        """Bring it to this moment."""
        columns = self._placements.columns
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
            self._judge_all(now)
        else:
            for row in changed:
                self._judge(row, now)
        self._version = columns.changed.version

    def _judge(self, row: int, now: float) -> None:
        gpus = self._placements.columns.gpus
        reported = gpus.reported_at.item(row)
        leased = gpus.kind.item(row) == Kind.LEASED
        stale = leased and reported < now - STALE_AFTER
        if leased and not stale:
            self._oldest = min(self._oldest, reported)
        if stale != self.stale.item(row):
            self.stale[row] = stale
            self.count += 1 if stale else -1

    def _judge_all(self, now: float) -> None:
        columns = self._placements.columns
        leased = columns.gpus.kind[: columns.size] == Kind.LEASED
        reported = columns.gpus.reported_at[: columns.size]
        stale = leased & (reported < now - STALE_AFTER)
        for row in np.flatnonzero(stale != self.stale[: columns.size]).tolist():
            self.flipped.touch(row)
        self.stale[: columns.size] = stale
        self.count = int(np.count_nonzero(stale))
        self._oldest = float(reported[leased & ~stale].min(initial=np.inf))
