"""Scores that look at other pods: soft spread constraints, and preferred affinity in both directions."""

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.filters.spread import SpreadDomains, domains_of
from ullage.decide.placement.score.kube.scale import Mask, Points, between_least_and_most, fewer_is_better
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.shape_terms import PodTerm
from ullage.state.domains import DomainSums
from ullage.state.pod_counts import RowCounts
from ullage.state.snapshot import ClusterSnapshot

_HOST = "kubernetes.io/hostname"

Raw = npt.NDArray[np.float64]


class SoftSpreadScore:
    """Soft spread constraints of one shape: rows in domains with fewer matching pods score higher."""

    def __init__(self, shape: Shape, snapshot: ClusterSnapshot) -> None:
        self._shape = shape
        self._snapshot = snapshot
        self._version = -1
        self._parts: list[SpreadDomains] = []

    def points(self, fits: Mask) -> Points:
        if not self._current():
            soft = [constraint for constraint in self._shape.spread if not constraint.hard]
            self._parts = domains_of(self._shape, soft, self._snapshot)
            self._version = self._snapshot.columns.renewed.version
        compared = fits.copy()
        for part in self._parts:
            compared &= part.codes >= 0
        raw = sum((self._raw(part, compared) for part in self._parts), start=np.zeros(len(fits)))
        return fewer_is_better(np.floor(raw + 0.5).astype(np.int64), compared)

    def _current(self) -> bool:
        fresh = self._version == self._snapshot.columns.renewed.version
        return fresh and all(part.sums.counts.kept for part in self._parts)

    def _raw(self, part: SpreadDomains, compared: Mask) -> Raw:
        """Number of matching pods in each row's domain, weighted higher if there are many domains."""
        size = len(compared)
        if part.constraint.topology_key == _HOST:
            domains, pods = int(compared.sum()), part.sums.counts.reach(size)[:size]
        else:
            domains, pods = len(np.unique(part.codes[compared])), part.sums.refresh()[part.codes]
        raw: Raw = pods * np.log(domains + 2) + (part.constraint.max_skew - 1)
        return raw


class PreferredAffinityScore:
    """Preferred affinity of a pod towards placed pods, and of placed pods towards it."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._version = -1
        self._sums: dict[tuple[PodTerm, int], DomainSums] = {}
        self._before: dict[tuple[PodTerm, int], DomainSums] = {}
        """Sums of the version before, kept so that their counts need not be made again."""

    def any_about(self, pod: Pod) -> bool:
        """True if the pod has preferred pod affinity, or a placed pod has such a term that matches it."""
        return bool(pod.shape.preferred_pods or self._snapshot.placed.preferences.about(pod))

    def points(self, pod: Pod, fits: Mask) -> Points | None:
        """Points by row; None if no preferred term applies."""
        snapshot = self._snapshot
        if self._version != snapshot.columns.renewed.version:
            self._before, self._sums = self._sums, {}
            self._version = snapshot.columns.renewed.version
        raw = np.zeros(len(fits), np.int64)
        own = [(w.term, w.weight, snapshot.counts((w.term.pods,))) for w in pod.shape.preferred_pods]
        heard = [*own, *snapshot.placed.preferences.about(pod)]
        for number, (term, weight, counts) in enumerate(heard):
            sums = self._of(term, 0 if number < len(own) else weight, counts).refresh()
            column = snapshot.labels.column(term.topology_key)
            raw += weight * sums[column.codes[: len(fits)]]
        return between_least_and_most(raw, fits) if heard else None

    def _of(self, term: PodTerm, whose: int, counts: RowCounts) -> DomainSums:
        """Sums of a term. `whose` is 0 for the pod's own terms, else the weight of a term that placed pods carry."""
        known = self._sums.get((term, whose))
        if known is None or known.counts is not counts:
            column = self._snapshot.labels.column(term.topology_key)
            known = self._sums[term, whose] = DomainSums(counts, column)
        return known
