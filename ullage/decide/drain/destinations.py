"""Where pods of drained nodes may go: open rows in a fixed order, searched round and round from where room was last.

Loners (see `loners`) ask two things of a node: whether it would do if nobody were there, which does not change while a
plan is made and is asked of the shared rules once; and whether there is room, which the columns tell.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ullage.decide.fit.codes import CODE, FITS, REASONS
from ullage.decide.seat.deciding import Seating
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.verdict import Reason

Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

_ROOM = (FITS, CODE[Reason.TOO_MANY_PODS], CODE[Reason.INSUFFICIENT_RESOURCES])
"""What rules say of nodes that would do if there were room."""


@dataclass(slots=True)
class _Wanted:
    """What loners of one shape look for."""

    able: Mask
    needs: list[tuple[int, int]]
    """Amounts above zero by resource index."""


class Destinations:
    """Knows which rows are closed to everybody, and asks the shared rules about the others."""

    def __init__(self, seating: Seating, *, now: float) -> None:
        self._seating = seating
        self._columns = seating.placements.columns
        self._now = now
        self._order: Rows = self._columns.by_name[::-1]
        self._pointers: dict[Shape, int] = {}
        self._latest = 0
        self._wanted: dict[Shape, _Wanted] = {}
        self._open: Mask = self._columns.alive[: self._columns.size].copy()

    def search_in(self, order: Rows) -> None:
        """Look through the rows in this order from now on."""
        self._order = order
        self._pointers.clear()
        self._latest = 0

    def close(self, row: int) -> None:
        """Nobody may go there."""
        self._open[row] = False

    def reopen(self, row: int) -> None:
        self._open[row] = True

    def takes(self, row: int, pod: Pod) -> bool:
        """Whether a row, such as the one a hint names, will do for a pod."""
        return self._open.item(row) and self._seating.codes(pod, now=self._now).item(row) == FITS

    def next_for(self, pod: Pod) -> int | None:
        """The next row that will do for a pod, which holds no room."""
        codes = self._seating.codes(pod, now=self._now)
        return self._next(pod.shape, (codes == FITS) & self._open)

    def refusals(self, pod: Pod) -> list[tuple[Reason, int]]:
        """What open rows have against a pod, and how many, most frequent first."""
        codes = self._seating.codes(pod, now=self._now)[self._open]
        counts = np.bincount(codes, minlength=len(REASONS))[: len(REASONS)].tolist()
        found = [(reason, counts[code]) for code, reason in enumerate(REASONS) if code != FITS and counts[code]]
        return sorted(found, key=lambda entry: -entry[1])

    def room_at(self, row: int, loner: Pod) -> int:
        """How many loners of this one's shape a row takes."""
        wanted = self._wanted_by(loner)
        if not self._open.item(row) or not wanted.able.item(row):
            return 0
        columns = self._columns
        most = columns.most_pods.item(row) - columns.pods.item(row)
        for index, amount in wanted.needs:
            most = min(most, (columns.allocatable.item(index, row) - columns.used.item(index, row)) // amount)
        return max(most, 0)

    def next_with_room(self, loner: Pod) -> tuple[int, int] | None:
        """The next row that takes loners of this one's shape, and how many."""
        if not len(self._order):
            return None
        # Where this shape was last, else where any other was: most nodes before that are full by now.
        for at in (self._pointers.get(loner.shape, 0), self._latest):
            row = self._order.item(at)
            room = self.room_at(row, loner)
            if room:
                self._pointers[loner.shape] = self._latest = at
                return row, room
        found = self._next(loner.shape, self._roomy(loner))
        if found is None:
            return None
        self._latest = self._pointers[loner.shape]
        return found, self.room_at(found, loner)

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

    def _roomy(self, loner: Pod) -> Mask:
        wanted, columns, size = self._wanted_by(loner), self._columns, self._columns.size
        roomy: Mask = wanted.able & self._open
        roomy &= columns.pods[:size] < columns.most_pods[:size]
        for index, amount in wanted.needs:
            roomy &= columns.allocatable[index, :size] - columns.used[index, :size] >= amount
        return roomy

    def _wanted_by(self, loner: Pod) -> _Wanted:
        known = self._wanted.get(loner.shape)
        if known is None:
            able = np.isin(self._seating.codes(loner, now=self._now), _ROOM)
            needs = [(index, amount) for index, amount in self._columns.indexed(loner.shape.requests) if amount > 0]
            known = self._wanted[loner.shape] = _Wanted(able, needs)
        return known
