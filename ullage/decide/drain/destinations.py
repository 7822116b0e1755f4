"""Where pods of drained nodes may go: open rows in a fixed order, searched round and round from where room was last."""

import numpy as np
import numpy.typing as npt

from ullage.decide.fit.codes import FITS
from ullage.decide.seat.deciding import Seating
from ullage.model.pod import Pod
from ullage.model.shape import Shape

Rows = npt.NDArray[np.intp]


class Destinations:
    """Asks the shared rules; knows which rows are closed to everybody."""

    def __init__(self, seating: Seating, *, now: float) -> None:
        self._seating = seating
        self._columns = seating.placements.columns
        self._now = now
        self._order: Rows = self._columns.by_name[::-1]
        self._pointers: dict[Shape, int] = {}
        self._open: npt.NDArray[np.bool_] = self._columns.alive[: self._columns.size].copy()

    def search_in(self, order: Rows) -> None:
        """Look through the rows in this order from now on."""
        self._order = order
        self._pointers.clear()

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
        if not len(self._order):
            return None
        codes = self._seating.codes(pod, now=self._now)
        at = self._pointers.get(pod.shape, 0)
        row = self._order.item(at)
        if codes.item(row) == FITS and self._open.item(row):
            return row
        fits = ((codes == FITS) & self._open)[self._order]
        if not fits.any():
            return None
        ahead = fits[at:]
        place = int(ahead.argmax())
        at = at + place if ahead[place] else int(fits.argmax())
        self._pointers[pod.shape] = at
        return self._order.item(at)

    def room(self, row: int, shape: Shape) -> int:
        """How many pods of a shape a row that takes one of them takes."""
        columns = self._columns
        most = columns.most_pods.item(row) - columns.pods.item(row)
        for index, amount in columns.indexed(shape.requests):
            if amount > 0:
                most = min(most, (columns.allocatable.item(index, row) - columns.used.item(index, row)) // amount)
        return most
