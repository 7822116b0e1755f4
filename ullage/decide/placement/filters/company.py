"""Affinity and anti-affinity between pods over all rows: vector form of the last three rules of `filters.pods`."""

from collections.abc import Sequence

import numpy as np

from ullage.decide.placement.filters.codes import CODE, Codes, first_of
from ullage.model.shape import Shape
from ullage.model.shape_terms import PodTerm
from ullage.model.verdict import Reason
from ullage.state.domains import DomainSums
from ullage.state.pod_counts import RowCounts
from ullage.state.snapshot import ClusterSnapshot

_UNMET = CODE[Reason.POD_AFFINITY_UNMET]
_AVOIDED = CODE[Reason.POD_ANTI_AFFINITY]
_AVOIDING = CODE[Reason.EXISTING_ANTI_AFFINITY]


class PodAffinityFilter:
    """Required pod affinity and anti-affinity of one shape."""

    def __init__(self, shape: Shape, placements: ClusterSnapshot) -> None:
        self._shape = shape
        self._placements = placements
        self._version = -1
        self._near: dict[str, DomainSums] = {}
        self._away: list[tuple[str, DomainSums]] = []

    def over(self, codes: Codes) -> Codes:
        """Codes, with this filter's refusals where `codes` fit."""
        if not self._current():
            self._rebuild()
        if self._shape.near:
            codes = self._over_near(codes)
        for key, sums in self._away:
            by_value = np.where(sums.refresh() > 0, _AVOIDED, 0).astype(np.uint8)
            codes = first_of(codes, by_row(by_value, key, self._placements))
        return codes

    def _current(self) -> bool:
        if self._version != self._placements.columns.renewed.version:
            return False
        return all(sums.counts.kept for sums in (*self._near.values(), *(sums for _, sums in self._away)))

    def _over_near(self, codes: Codes) -> Codes:
        sums = {key: near.refresh() for key, near in self._near.items()}
        first_of_its_kind = not any(each.any() for each in sums.values()) and self._wants_itself()
        for key, each in sums.items():
            by_value = np.where((each > 0) | first_of_its_kind, 0, _UNMET).astype(np.uint8)
            by_value[-1] = _UNMET
            codes = first_of(codes, by_row(by_value, key, self._placements))
        return codes

    def _wants_itself(self) -> bool:
        shape = self._shape
        labels, place = dict(shape.labels), self._placements.state.namespace_labels(shape.namespace)
        return all(term.pods.matches(shape.namespace, labels, place) for term in shape.near)

    def _rebuild(self) -> None:
        placements = self._placements
        if self._shape.near:
            counts = placements.counts(tuple(term.pods for term in self._shape.near))
            keys = dict.fromkeys(term.topology_key for term in self._shape.near)
            self._near = {key: DomainSums(counts, placements.labels.column(key)) for key in keys}
        self._away = [
            (
                term.topology_key,
                DomainSums(placements.counts((term.pods,)), placements.labels.column(term.topology_key)),
            )
            for term in self._shape.away
        ]
        self._version = placements.columns.renewed.version


class ExistingAntiAffinity:
    """Required anti-affinity of placed pods towards the pod being placed."""

    def __init__(self, placements: ClusterSnapshot) -> None:
        self._placements = placements
        self._version = -1
        self._sums: dict[PodTerm, DomainSums] = {}

    def over(self, codes: Codes, about: Sequence[tuple[PodTerm, int, RowCounts]]) -> Codes:
        """Codes, with refusals by terms of placed pods that match the pod (`about`) where `codes` fit."""
        for term, _, counts in about:
            sums = self._of(term, counts).refresh()
            by_value = np.where(sums > 0, _AVOIDING, 0).astype(np.uint8)
            codes = first_of(codes, by_row(by_value, term.topology_key, self._placements))
        return codes

    def _of(self, term: PodTerm, counts: RowCounts) -> DomainSums:
        version = self._placements.columns.renewed.version
        if self._version != version:
            self._sums.clear()
            self._version = version
        known = self._sums.get(term)
        if known is None or known.counts is not counts:
            known = self._sums[term] = DomainSums(counts, self._placements.labels.column(term.topology_key))
        return known


def by_row(by_value: Codes, key: str, placements: ClusterSnapshot) -> Codes:
    """Codes by row from codes by value of a label; the last place of `by_value` is for rows without the label."""
    return by_value[placements.labels.column(key).codes[: placements.columns.size]]
