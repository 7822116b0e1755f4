"""Scores that look at other pods: soft spreading, and wishes to be near or away, in both directions."""

import numpy as np
import numpy.typing as npt

from ullage.decide.fit.vectors.spread import Spreading, domains_of
from ullage.decide.score.kube.scale import Mask, Points, between_least_and_most, fewer_is_better
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.terms import PodTerm
from ullage.state.domains import DomainSums
from ullage.state.placements import Placements
from ullage.state.tally import RowCounts

_HOST = "kubernetes.io/hostname"

Raw = npt.NDArray[np.float64]


class SoftSpread:
    """Soft constraints of one shape: rows in domains with fewer pods like it are better."""

    def __init__(self, shape: Shape, placements: Placements) -> None:
        self._shape = shape
        self._placements = placements
        self._version = -1
        self._parts: list[Spreading] = []

    def points(self, fits: Mask) -> Points:
        if not self._current():
            soft = [constraint for constraint in self._shape.spread if not constraint.hard]
            self._parts = domains_of(self._shape, soft, self._placements)
            self._version = self._placements.columns.renewed.version
        compared = fits.copy()
        for part in self._parts:
            compared &= part.codes >= 0
        raw = sum((self._raw(part, compared) for part in self._parts), start=np.zeros(len(fits)))
        return fewer_is_better(np.floor(raw + 0.5).astype(np.int64), compared)

    def _current(self) -> bool:
        fresh = self._version == self._placements.columns.renewed.version
        return fresh and all(part.sums.counts.kept for part in self._parts)

    def _raw(self, part: Spreading, compared: Mask) -> Raw:
        """Pods in each row's domain, worth more where there are many domains."""
        size = len(compared)
        if part.constraint.topology_key == _HOST:
            domains, pods = int(compared.sum()), part.sums.counts.reach(size)[:size]
        else:
            domains, pods = len(np.unique(part.codes[compared])), part.sums.refresh()[part.codes]
        raw: Raw = pods * np.log(domains + 2) + (part.constraint.max_skew - 1)
        return raw


class Wishes:
    """What a pod wishes of placed pods, and placed pods of it."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self._version = -1
        self._sums: dict[tuple[PodTerm, int], DomainSums] = {}
        self._before: dict[tuple[PodTerm, int], DomainSums] = {}
        """Kept a while longer, so that what they count need not be counted again."""

    def any_about(self, pod: Pod) -> bool:
        """Whether this pod wishes anything, or any placed pod of it."""
        return bool(pod.shape.preferred_pods or self._placements.wishes.about(pod))

    def points(self, pod: Pod, fits: Mask) -> Points | None:
        """None where nobody wishes anything."""
        placements = self._placements
        if self._version != placements.columns.renewed.version:
            self._before, self._sums = self._sums, {}
            self._version = placements.columns.renewed.version
        raw = np.zeros(len(fits), np.int64)
        own = [(w.term, w.weight, placements.counts((w.term.pods,))) for w in pod.shape.preferred_pods]
        heard = [*own, *placements.wishes.about(pod)]
        for number, (term, weight, counts) in enumerate(heard):
            sums = self._of(term, 0 if number < len(own) else weight, counts).refresh()
            column = placements.labels.column(term.topology_key)
            raw += weight * sums[column.codes[: len(fits)]]
        return between_least_and_most(raw, fits) if heard else None

    def _of(self, term: PodTerm, whose: int, counts: RowCounts) -> DomainSums:
        """`whose` is 0 for pods that are wished for, and otherwise the weight of a wish that pods carry."""
        known = self._sums.get((term, whose))
        if known is None or known.counts is not counts:
            column = self._placements.labels.column(term.topology_key)
            known = self._sums[term, whose] = DomainSums(counts, column)
        return known
