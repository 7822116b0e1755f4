"""How all nodes rank for pods of one shape, kept as nodes change: only rows that changed are judged and ranked again.

Between two pods of one shape a row or two have changed, so a decision is a handful of look-ups and one search for the
largest number. What a rank is made of is said in `rank`; rules and wishes that look beyond a row are asked elsewhere.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ullage.decide.fit.codes import FITS, Codes
from ullage.decide.fit.table import FitTable
from ullage.decide.score.columns import GpuColumns, GpuDemand, GpuPolicy
from ullage.decide.score.kube import KubeScores
from ullage.decide.seat.gpus import AskTable, GpuTable, with_stale
from ullage.decide.seat.rank import LEAST_KEY, NEVER, SOFT, Ranks
from ullage.decide.seat.sparing import spared, spared_at
from ullage.decide.seat.view import CPU, GpuView
from ullage.model.claim import DeviceAsk
from ullage.model.resources import GPU, MILLI
from ullage.model.shape import Shape
from ullage.state.placements import Placements

MOST_SHAPES = 1024
"""Shapes remembered; when there are more, the one asked for longest ago is forgotten."""

_FEW = 6
"""Changes that are cheaper to look at one by one than all at once."""

Rows = npt.NDArray[np.intp]


def ask_of(shape: Shape) -> DeviceAsk | None:
    """What a shape asks of GPUs: its claim, or as many whole ones as it requests."""
    if shape.devices is not None:
        return shape.devices
    requested = dict(shape.requests).get(GPU, 0)
    return DeviceAsk(count=-(-requested // MILLI)) if requested else None


class Standing:
    """Ranks of all nodes for one shape. Only `Standings` writes to it."""

    def __init__(self, shape: Shape, table: AskTable | None) -> None:
        self.shape = shape
        self.table = table
        """Answers of GPUs; None for pods without."""
        self.cpu = dict(shape.requests).get(CPU, 0)
        self.prefers_topology = shape.devices is not None
        """A plain request for GPUs says nothing about how they should be wired."""
        self.fits: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        """By row: whether it fits, as far as the row itself can tell."""
        self.fitting = 0
        """How many do."""
        self.fitted_at = self.ranked_at = (-1, -1)
        self.order: Rows = np.zeros(0, np.intp)
        """Rows in the order that breaks ties."""
        self.places: Rows = np.zeros(0, np.intp)
        """The place of each row in that order; rows without a node share the last place, which is nobody's."""
        self.ranks: Ranks = np.zeros(0, np.int64)
        """By place."""
        self.basis: tuple[object, ...] = ()
        self.demand: GpuDemand | None = None

    def best(self, closed: Codes | None, wishes: Ranks | None) -> tuple[int, int] | None:
        """The row with the highest rank and that rank; None if none fits. `closed` rows are left out."""
        ranks = self.ranks
        if closed is not None or wishes is not None:
            ranks = ranks[:-1]
            if wishes is not None:
                ranks = ranks + (wishes[self.order] << SOFT)
            refused = ~self.fits if closed is None else ~self.fits | (closed != FITS)
            ranks = np.where(refused[self.order], NEVER, ranks)
        place = int(ranks.argmax()) if len(ranks) else 0
        rank = ranks.item(place) if len(ranks) else NEVER
        return None if rank == NEVER else (self.order.item(place), rank)

    def reset(self, order: Rows, rows: int) -> None:
        """Nothing is ranked any more."""
        self.order = order
        self.places = np.full(rows, len(order), np.intp)
        self.places[order] = np.arange(len(order))
        self.ranks = np.full(len(order) + 1, NEVER, np.int64)
        self.ranked_at = (-1, -1)


class Standings:
    """Standings of shapes, brought up to date when asked for."""

    def __init__(self, placements: Placements, fit: FitTable, gpus: GpuTable, view: GpuView) -> None:
        self._placements = placements
        self._columns = placements.columns
        self._fit = fit
        self._gpus = gpus
        self._view = view
        self.scores = KubeScores(placements)
        self._known: dict[Shape, Standing] = {}

    def fitted(self, shape: Shape, *, now: float) -> Standing:
        """The standing of a shape, with `fits` as of now."""
        standing = self._remember(shape)
        local = self._fit.local(shape)
        if standing.table is not None:
            self._gpus.boards.refresh()
            self._gpus.freshness.refresh(now)
        if len(standing.fits) != self._columns.size:
            standing.fits, standing.fitting = np.zeros(self._columns.size, np.bool_), 0
            standing.fitted_at = (-1, -1)
        few = self._few_since(standing.fitted_at)
        if few is None:
            self._fit_some(standing, local, self._rows_since(standing.fitted_at))
        else:
            for row in few:
                self._fit_one(standing, local, row)
        standing.fitted_at = self._version()
        return standing

    def ranked(self, standing: Standing, policy: GpuPolicy) -> None:
        """Bring the ranks of a standing that was just fitted up to now."""
        view, columns = self._view.columns(), self._columns
        images = self.scores.images(standing.shape)
        basis = (columns.by_name, columns.size, policy, policy.basis(view), images)
        if not _same(basis, standing.basis):
            order = columns.by_name
            if images is not None and standing.table is not None:
                order = order[np.argsort(-images[order], kind="stable")]
            standing.reset(order, columns.size)
            standing.basis = basis
        few = self._few_since(standing.ranked_at)
        if few is None:
            self._rank_some(standing, policy, view, self._rows_since(standing.ranked_at))
        elif few:
            self._rank_few(standing, policy, view, few)
        standing.ranked_at = self._version()

    def _version(self) -> tuple[int, int]:
        return self._columns.changed.version, self._gpus.freshness.flipped.version

    def _few_since(self, at: tuple[int, int]) -> Sequence[int] | None:
        """Rows changed since then, if they are few."""
        changed, flipped = self._columns.changed, self._gpus.freshness.flipped
        if at[0] < 0 or changed.version - at[0] + flipped.version - at[1] > _FEW:
            return None
        rows = changed.since(at[0])
        if flipped.version == at[1]:
            return rows
        return tuple(dict.fromkeys((*(rows or ()), *(flipped.since(at[1]) or ()))))

    def _rows_since(self, at: tuple[int, int]) -> Rows:
        size = self._columns.size
        changed, flipped = self._columns.changed, self._gpus.freshness.flipped
        if flipped.version == at[1] or at[0] < 0:
            return changed.rows_since(at[0], size)
        return np.union1d(changed.rows_since(at[0], size), flipped.rows_since(at[1], size))

    def _fit_one(self, standing: Standing, local: Codes, row: int) -> None:
        code = local.item(row)
        if not code and standing.table is not None:
            code = self._gpus.freshness.stale.item(row) or standing.table.code(self._gpus.boards.numbers.item(row))
        fits = not code
        if fits != standing.fits.item(row):
            standing.fits[row] = fits
            standing.fitting += 1 if fits else -1

    def _fit_some(self, standing: Standing, local: Codes, rows: Rows) -> None:
        fits = local[rows] == FITS
        if standing.table is not None:
            # Rows refused already are not asked about their GPUs: most asks are new to most boards.
            asked = np.flatnonzero(fits)
            codes = standing.table.codes(self._gpus.boards.numbers[rows[asked]])
            fits[asked] = with_stale(codes, self._gpus.freshness.stale[rows[asked]]) == FITS
        standing.fitting += int(np.count_nonzero(fits)) - int(np.count_nonzero(standing.fits[rows]))
        standing.fits[rows] = fits

    def _rank_few(self, standing: Standing, policy: GpuPolicy, view: GpuColumns, rows: Sequence[int]) -> None:
        demand, table = self.demand(standing), standing.table
        room = self.scores.room(standing.shape) if table is None else None
        for row in rows:
            rank = NEVER
            if standing.fits.item(row):
                rank = max(policy.key_at(view, demand, row), LEAST_KEY)
                if table is not None and standing.prefers_topology:
                    rank += table.merit(self._gpus.boards.numbers.item(row))
                elif room is not None:
                    soft = room.fullness.item(row) + room.balance.item(row) + spared(view, self._columns, row)
                    images = self.scores.images(standing.shape)
                    rank += soft + (0 if images is None else images.item(row)) << SOFT
            standing.ranks[standing.places.item(row)] = rank

    def _rank_some(self, standing: Standing, policy: GpuPolicy, view: GpuColumns, rows: Rows) -> None:
        fits = standing.fits[rows]
        chosen = rows[fits]
        ranks = np.full(len(rows), NEVER, np.int64)
        if len(chosen):
            found = np.maximum(policy.keys_at(view, self.demand(standing), chosen), LEAST_KEY)
            if standing.table is None:
                found += self._soft(standing.shape, view, chosen) << SOFT
            elif standing.prefers_topology:
                found += standing.table.merits(self._gpus.boards.numbers[chosen])
            ranks[fits] = found
        standing.ranks[standing.places[rows]] = ranks

    def _soft(self, shape: Shape, view: GpuColumns, rows: Rows) -> Ranks:
        """What each row by itself is worth to a pod without GPUs."""
        room, images = self.scores.room(shape), self.scores.images(shape)
        soft: Ranks = room.fullness[rows] + room.balance[rows] + spared_at(view, self._columns, rows)
        return soft if images is None else soft + images[rows]

    def demand(self, standing: Standing) -> GpuDemand:
        """What the shape means to the GPU policy. `columns` of the view have been asked for before."""
        known = standing.demand
        if known is None or len(known.milli) != self._view.models:
            ask = None if standing.table is None else standing.table.ask
            known = standing.demand = self._view.demand(ask, standing.cpu)
        return known

    def _remember(self, shape: Shape) -> Standing:
        known = self._known.pop(shape, None)
        if known is None:
            ask = ask_of(shape)
            known = Standing(shape, None if ask is None else self._gpus.table(ask))
            if len(self._known) >= MOST_SHAPES:
                del self._known[next(iter(self._known))]
        self._known[shape] = known  # last in the dict: asked for most recently
        return known


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """The same objects, or equal numbers."""
    return len(one) == len(other) and all(
        a is b or (isinstance(a, int | tuple) and a == b) for a, b in zip(one, other, strict=True)
    )
