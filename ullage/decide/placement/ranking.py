"""Node ranking per pod shape. Incremental: only rows in the change log are filtered and scored again.

Between two pods of one shape a row or two have changed, so a decision is a handful of look-ups and one search for the
largest number. `rank` describes the fields of a rank. Filters and scores that look beyond a row are in `filters.table`
and `score.kube`.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.devices.fit import DeviceAnswers, DeviceFitTable
from ullage.decide.placement.devices.requirements import ask_of
from ullage.decide.placement.filters.codes import FITS, Codes
from ullage.decide.placement.filters.table import FilterTable, ShapeFilters
from ullage.decide.placement.rank import LEAST_KEY, NEVER, SOFT, Ranks
from ullage.decide.placement.score.gpu_scorer import DemandScores, GpuDemand, GpuScorer, ScoreColumns
from ullage.decide.placement.score.kube import WEIGHTS, KubeScores, ShapeScores
from ullage.decide.placement.score.kube.scale import MOST, Points
from ullage.decide.placement.score.vm import relief_scores, vm_scores
from ullage.decide.placement.score_view import CPU, ScoreView
from ullage.model.resources import GPU
from ullage.model.shape import Shape
from ullage.model.units import Instant
from ullage.state.node_columns import NodeColumns
from ullage.state.snapshot import ClusterSnapshot

MOST_SHAPES = 1024
"""Shapes cached; beyond this the least recently used one is dropped."""

_FEW = 6
"""Number of changes up to which rows are handled one by one: cheaper than all at once."""

Rows = npt.NDArray[np.intp]

NEVER_SEEN = (-1, -1)


class NodeRanking:
    """Ranks of all nodes for one shape. Only `NodeRankings` writes them."""

    def __init__(self, shape: Shape, verdicts: ShapeFilters, scores: ShapeScores, table: DeviceAnswers | None) -> None:
        self.verdicts = verdicts
        self.scores = scores
        self.table = table
        """Device answers by row state; None for pods without GPUs."""
        self.cpu = dict(shape.requests).get(CPU, 0)
        self.guest = shape.vm
        """Room that a VM pod needs in VM ledgers; None for ordinary pods."""
        self.guest_moves = bool(shape.vm_elsewhere)
        """Target of a migration: the VM runs on another node."""
        self.prefers_topology = shape.devices is not None
        """False for a plain request for GPUs, which says nothing about NVLink."""
        self.fits: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        """By row: True if it fits by the filters that look only at the row."""
        self.fitting = 0
        """Number of rows that fit."""
        self.fitted_at = self.ranked_at = NEVER_SEEN
        self.order: Rows = np.zeros(0, np.intp)
        """Rows in the order that breaks ties."""
        self.places: Rows = np.zeros(0, np.intp)
        """Place of each row in that order; rows without a node share the place after the last."""
        self.ranks: Ranks = np.zeros(0, np.int64)
        """Ranks by place."""
        self._mounts, self._volumes = bool(shape.claims), -1
        self.demand: GpuDemand | None = None
        self.policy: GpuScorer | None = None
        self.keys: DemandScores | None = None
        self.basis: tuple[object, ...] = ()

    def best(self, closed: Codes | None, preferred_points: Ranks | None) -> tuple[int, int] | None:
        """Row with the highest rank, and that rank; None if no row fits. `closed` rows are left out."""
        ranks = self.ranks
        if closed is not None or preferred_points is not None:
            ranks = ranks[:-1]
            if preferred_points is not None:
                ranks = ranks + (preferred_points[self.order] << SOFT)
            refused = ~self.fits if closed is None else ~self.fits | (closed != FITS)
            ranks = np.where(refused[self.order], NEVER, ranks)
        if not len(ranks):
            return None
        place = int(ranks.argmax())
        rank = ranks.item(place)
        return None if rank == NEVER else (self.order.item(place), rank)

    def outdated(self, volumes: int) -> bool:
        """True if the shape has volume claims and volumes changed since the last call."""
        if not self._mounts or self._volumes == volumes:
            return False
        self._volumes = volumes
        return True

    def reset(self, order: Rows, places: Rows) -> None:
        """Drop all ranks and take a new order."""
        self.order, self.places = order, places
        self.ranks = np.full(len(order) + 1, NEVER, np.int64)
        self.ranked_at = NEVER_SEEN


class NodeRankings:
    """NodeRankings of shapes, brought up to date on use."""

    def __init__(self, snapshot: ClusterSnapshot, fit: FilterTable, gpus: DeviceFitTable, view: ScoreView) -> None:
        self._snapshot = snapshot
        self._columns = snapshot.columns
        self._fit = fit
        self._gpus = gpus
        self._view = view
        self.scores = KubeScores(snapshot)
        self._known: dict[Shape, NodeRanking] = {}
        self._by_name: tuple[Rows, Rows] = (np.zeros(0, np.intp), np.zeros(0, np.intp))
        self._looking: GpuScorer | None = None
        self._looked_at = -1

    def fitted(self, shape: Shape, *, now: Instant) -> NodeRanking:
        """Ranking of a shape, with `fits` up to date."""
        ranking = self._remember(shape)
        if ranking.table is not None:
            self._gpus.devices.refresh()
            self._gpus.freshness.refresh(now)
        if len(ranking.fits) != self._columns.size or ranking.outdated(self._snapshot.volumes_version):
            ranking.fits, ranking.fitting = np.zeros(self._columns.size, np.bool_), 0
            ranking.fitted_at = ranking.ranked_at = NEVER_SEEN
        few = self._few_since(ranking.fitted_at)
        if few is None:
            self._fit_some(ranking, self._rows_since(ranking.fitted_at))
        else:
            for row in few:
                self._fit_one(ranking, row)
        ranking.fitted_at = self._version()
        return ranking

    def ranked(self, ranking: NodeRanking, policy: GpuScorer) -> None:
        """Bring the ranks of a ranking up to date; `fitted` was just called for it."""
        view, columns, scores = self._view.columns(), self._columns, ranking.scores
        self._let_look(policy, view)
        scores.refresh()
        demand = self.demand(ranking)
        if ranking.policy is not policy or ranking.keys is None:
            ranking.policy, ranking.keys, ranking.basis = policy, policy.keys_for(demand), ()
        basis = (columns.roster, scores.images_version, policy.basis(view))
        if basis != ranking.basis:
            ranking.reset(*self._order(ranking))
            ranking.basis = basis
        few = self._few_since(ranking.ranked_at)
        if few is None:
            self._rank_some(ranking, ranking.keys, view, self._rows_since(ranking.ranked_at))
        elif few:
            self._rank_few(ranking, ranking.keys, view, few)
        ranking.ranked_at = self._version()

    def _let_look(self, policy: GpuScorer, view: ScoreColumns) -> None:
        """Pass a policy the rows that changed since its last look."""
        changed = self._columns.changed
        rows: Iterable[int] | None = ()
        if self._looking is not policy:
            rows = None
        elif self._looked_at != changed.version:
            rows = changed.since(self._looked_at)
        policy.look(view, range(self._columns.size) if rows is None else rows)
        self._looking, self._looked_at = policy, changed.version

    def known_demand(self, shape: Shape) -> GpuDemand | None:
        """GpuDemand of a shape that was ranked; None if it has to be made. Call the view's `columns` first."""
        ranking = self._known.get(shape)
        known = None if ranking is None else ranking.demand
        return None if known is None or len(known.milli) != self._view.models else known

    def demand(self, ranking: NodeRanking) -> GpuDemand:
        """GpuDemand of the shape for the GPU policy. Call the view's `columns` first."""
        known = ranking.demand
        if known is None or len(known.milli) != self._view.models:
            ask = None if ranking.table is None else ranking.table.ask
            known = ranking.demand = self._view.demand(ask, ranking.cpu)
            ranking.keys = None
        return known

    def _order(self, ranking: NodeRanking) -> tuple[Rows, Rows]:
        """Tie order of rows, and its inverse: by name; for pods with GPUs, nodes that have their images first."""
        order, images = self._columns.by_name, ranking.scores.images
        if images is not None and ranking.table is not None:
            order = order[np.argsort(-images[order], kind="stable")]
            return order, _inverse(order, self._columns.size)
        if self._by_name[0] is not order:
            self._by_name = (order, _inverse(order, self._columns.size))
        return self._by_name

    def _version(self) -> tuple[int, int]:
        return self._columns.changed.version, self._gpus.freshness.flipped.version

    def _few_since(self, at: tuple[int, int]) -> Sequence[int] | None:
        """Rows changed since then; None if they are many."""
        changed, flipped = self._columns.changed, self._gpus.freshness.flipped
        if at[0] < 0 or changed.version - at[0] + flipped.version - at[1] > _FEW:
            return None
        rows = changed.since(at[0])
        if flipped.version == at[1] or rows is None:
            return rows
        turned = flipped.since(at[1])
        return None if turned is None else tuple(dict.fromkeys((*rows, *turned)))

    def _rows_since(self, at: tuple[int, int]) -> Rows:
        size = self._columns.size
        changed, flipped = self._columns.changed, self._gpus.freshness.flipped
        if flipped.version == at[1] or at[0] < 0:
            return changed.rows_since(at[0], size)
        return np.union1d(changed.rows_since(at[0], size), flipped.rows_since(at[1], size))

    def _fit_one(self, ranking: NodeRanking, row: int) -> None:
        fits = ranking.verdicts.rows.fits(row)
        if fits and ranking.table is not None:
            gpus = self._gpus
            fits = not gpus.freshness.stale.item(row) and not ranking.table.code(gpus.devices.numbers.item(row))
        if fits != ranking.fits.item(row):
            ranking.fits[row] = fits
            ranking.fitting += 1 if fits else -1

    def _fit_some(self, ranking: NodeRanking, rows: Rows) -> None:
        fitting = ranking.verdicts.rows.fitting(rows)
        if ranking.table is not None:
            if self._gpus.freshness.count:
                fitting = fitting[~self._gpus.freshness.stale.take(fitting)]
            fitting = fitting[ranking.table.codes(self._gpus.devices.numbers.take(fitting)) == FITS]
        ranking.fits[rows] = False
        ranking.fits[fitting] = True
        ranking.fitting = int(np.count_nonzero(ranking.fits))

    def _rank_few(self, ranking: NodeRanking, keys: DemandScores, view: ScoreColumns, rows: Sequence[int]) -> None:
        for row in rows:
            rank = NEVER
            if ranking.fits.item(row):
                rank = max(keys.at_row(view, row), LEAST_KEY)
                if ranking.table is None:
                    rank += int(self._soft(ranking, view, np.array([row]))[0]) << SOFT
                elif ranking.prefers_topology:
                    rank += ranking.table.merit(self._gpus.devices.numbers.item(row))
            ranking.ranks[ranking.places.item(row)] = rank

    def _rank_some(self, ranking: NodeRanking, keys: DemandScores, view: ScoreColumns, rows: Rows) -> None:
        ranking.ranks[ranking.places.take(rows)] = NEVER
        chosen = rows[ranking.fits.take(rows)]
        if not len(chosen):
            return
        ranks = np.maximum(keys.at(view, chosen), LEAST_KEY)
        if ranking.table is None:
            ranks += self._soft(ranking, view, chosen) << SOFT
        elif ranking.prefers_topology:
            ranks += ranking.table.merits(self._gpus.devices.numbers.take(chosen))
        ranking.ranks[ranking.places.take(chosen)] = ranks

    def _soft(self, ranking: NodeRanking, view: ScoreColumns, rows: Rows) -> Ranks:
        """Soft scores of rows for a pod without GPUs, from the row alone. VM pods have a score of their own."""
        if ranking.guest is not None:
            scores = relief_scores if ranking.guest_moves else vm_scores
            return scores(self._snapshot.vms, ranking.guest, rows)
        room, images = ranking.scores.room, ranking.scores.images
        room.refresh()
        soft: Ranks = room.fullness[rows] + room.balance[rows] + keeping_gpus_free(view, self._columns, rows)
        return soft if images is None else soft + images[rows]

    def _remember(self, shape: Shape) -> NodeRanking:
        known = self._known.pop(shape, None)
        if known is None:
            ask = ask_of(shape)
            table = None if ask is None else self._gpus.table(ask)
            known = NodeRanking(shape, self._fit.verdicts(shape), self.scores.of(shape), table)
            if len(self._known) >= MOST_SHAPES:
                del self._known[next(iter(self._known))]
        self._known[shape] = known  # last in the dict: most recently used
        return known


def _inverse(order: Rows, rows: int) -> Rows:
    """Place of each row in the order; rows not in it share the place after the last."""
    places = np.full(rows, len(order), np.intp)
    places[order] = np.arange(len(order))
    return places


_KEEP_FREE = WEIGHTS["taints"]
"""Weight of the score: for a pod without GPUs, a node with GPUs counts like a PreferNoSchedule taint."""

_HALF = MOST // 2
"""Most points of a node with GPUs, reached when none of its GPUs is idle."""


def keeping_gpus_free(view: ScoreColumns, columns: NodeColumns, rows: npt.NDArray[np.intp]) -> Points:
    """Weighted points of these rows for a pod without GPUs."""
    without = (columns.gpus.exists[rows] == 0) & (columns.allocatable[columns.resource(GPU)][rows] == 0)
    total = view.gpu_total[rows]
    busy = _HALF * (total - view.gpu_left[rows].sum(axis=1)) // np.maximum(total, 1)
    points: Points = _KEEP_FREE * np.where(without, MOST, busy)
    return points
