"""Search of destinations for pods of drained nodes: open rows in a fixed order, each search starts at the last hit.

Batchable pods (see `relocation`) need two answers per row. Filters other than room do not change while a plan is made:
the PlacementEngine is asked once per shape. Room is read from the columns each time.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.placement.filters.codes import CODE, FITS, REASONS
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.units import Instant
from ullage.model.verdict import Reason

Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

_ROOM = (FITS, CODE[Reason.TOO_MANY_PODS], CODE[Reason.INSUFFICIENT_RESOURCES])
"""Filter codes of rows that fit, or that lack nothing but room."""


@dataclass(slots=True)
class _Wanted:
    """Requirements of batchable pods of one shape."""

    able: Mask
    needs: list[tuple[int, int]]
    """Amounts above zero by resource index."""


class DestinationSearch:
    """Open and closed rows of one plan; open rows are filtered by the PlacementEngine."""

    def __init__(self, engine: PlacementEngine, *, now: Instant) -> None:
        self._engine = engine
        self._columns = engine.snapshot.columns
        self._now = now
        self._order: Rows = self._columns.by_name[::-1]
        self._pointers: dict[Shape, int] = {}
        self._latest = 0
        self._wanted: dict[Shape, _Wanted] = {}
        self._allowed: Mask = self._columns.alive[: self._columns.size].copy()
        self._open: Mask = self._allowed.copy()

    def search_in(self, order: Rows) -> None:
        """Set the search order and start from its beginning."""
        self._order = order
        self._pointers.clear()
        self._latest = 0

    def limit_to(self, names: Collection[str]) -> None:
        """Close all other nodes for good: `reopen` does not open them again."""
        rows = [row for name, row in self._columns.rows.items() if name in names]
        chosen = np.zeros_like(self._allowed)
        chosen[rows] = True
        self._allowed &= chosen
        self._open &= chosen

    def close(self, row: int) -> None:
        """Close a row to all pods."""
        self._open[row] = False

    def reopen(self, row: int) -> None:
        self._open[row] = self._allowed[row]

    def takes(self, row: int, pod: Pod) -> bool:
        """True if a row, such as the one a hint names, is open and the pod fits there."""
        return self._open.item(row) and self._engine.codes(pod, now=self._now).item(row) == FITS

    def next_for(self, pod: Pod) -> int | None:
        """Next open row that fits a pod. The pod must hold no room in the snapshot."""
        codes = self._engine.codes(pod, now=self._now)
        return self._next(pod.shape, (codes == FITS) & self._open)

    def refusals(self, pod: Pod) -> list[tuple[Reason, int]]:
        """Reasons why open rows do not fit a pod, each with its number of rows, most frequent first."""
        codes = self._engine.codes(pod, now=self._now)[self._open]
        counts = np.bincount(codes, minlength=len(REASONS))[: len(REASONS)].tolist()
        found = [(reason, counts[code]) for code, reason in enumerate(REASONS) if code != FITS and counts[code]]
        return sorted(found, key=lambda entry: -entry[1])

    def room_at(self, row: int, pod: Pod) -> int:
        """Number of batchable pods of this pod's shape that fit on a row."""
        wanted = self._wanted_by(pod)
        if not self._open.item(row) or not wanted.able.item(row):
            return 0
        columns = self._columns
        most = columns.most_pods.item(row) - columns.pods.item(row)
        for index, amount in wanted.needs:
            most = min(most, columns.free.item(index, row) // amount)
        return max(most, 0)

    def next_with_room(self, pod: Pod) -> tuple[int, int] | None:
        """Next row with room for batchable pods of this pod's shape, and how many fit there."""
        if not len(self._order):
            return None
        # Try the last hit of this shape, then the last hit of any shape: most rows before those are full by now.
        for at in (self._pointers.get(pod.shape, 0), self._latest):
            row = self._order.item(at)
            room = self.room_at(row, pod)
            if room:
                self._pointers[pod.shape] = self._latest = at
                return row, room
        found = self._next(pod.shape, self._roomy(pod))
        if found is None:
            return None
        self._latest = self._pointers[pod.shape]
        return found, self.room_at(found, pod)

    def _next(self, shape: Shape, fits: Mask) -> int | None:
        found = fits[self._order]
        if not found.any():
            return None
        at = self._pointers.get(shape, 0)
        ahead = found[at:]
        place = int(ahead.argmax())
        at = at + place if ahead[place] else int(found.argmax())
        self._pointers[shape] = at
        return self._order.item(at)

    def _roomy(self, pod: Pod) -> Mask:
        wanted, columns, size = self._wanted_by(pod), self._columns, self._columns.size
        roomy: Mask = wanted.able & self._open
        roomy &= columns.pods[:size] < columns.most_pods[:size]
        for index, amount in wanted.needs:
            roomy &= columns.free[index, :size] >= amount
        return roomy

    def _wanted_by(self, pod: Pod) -> _Wanted:
        known = self._wanted.get(pod.shape)
        if known is None:
            able = np.isin(self._engine.codes(pod, now=self._now), _ROOM)
            needs = [(index, amount) for index, amount in self._columns.needs(pod.shape.requests) if amount > 0]
            known = self._wanted[pod.shape] = _Wanted(able, needs)
        return known
