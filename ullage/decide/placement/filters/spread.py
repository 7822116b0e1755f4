"""Hard spread constraints over all rows: vector form of `filters.pods.spread_would_be_too_uneven`."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.filters.codes import CODE, Codes, first_of
from ullage.decide.placement.filters.masks import Mask, all_rows, has_label, tolerable, wanted
from ullage.model.selector import Operator, Requirement
from ullage.model.shape import Shape
from ullage.model.shape_terms import SpreadConstraint
from ullage.model.verdict import Reason
from ullage.state.domains import DomainSums
from ullage.state.snapshot import ClusterSnapshot

_MISSING = CODE[Reason.SPREAD_KEY_MISSING]
_UNEVEN = CODE[Reason.SPREAD_TOO_UNEVEN]


@dataclass(frozen=True, slots=True)
class SpreadDomains:
    """One spread constraint with its counts by domain."""

    constraint: SpreadConstraint
    itself: bool
    sums: DomainSums
    codes: npt.NDArray[np.int32]
    """Domain of each row, as the code of its label value."""

    def refusals(self) -> Codes:
        sums = self.sums.refresh()
        present = self.sums.present
        enough = present.sum() >= max(self.constraint.min_domains, 1)
        least = int(sums[:-1][present].min()) if enough else 0
        by_value = np.where(sums + self.itself - least > self.constraint.max_skew, _UNEVEN, 0).astype(np.uint8)
        by_value[-1] = _MISSING
        return by_value[self.codes]


class SpreadFilter:
    """Hard spread constraints of one shape."""

    def __init__(self, shape: Shape, placements: ClusterSnapshot) -> None:
        self._shape = shape
        self._placements = placements
        self._version = -1
        self._parts: tuple[SpreadDomains, ...] = ()

    def over(self, codes: Codes) -> Codes:
        """Codes, with this filter's refusals where `codes` fit."""
        current = self._version == self._placements.columns.renewed.version
        if not current or not all(part.sums.counts.kept for part in self._parts):
            self._rebuild()
        for part in self._parts:
            codes = first_of(codes, part.refusals())
        return codes

    def _rebuild(self) -> None:
        hard = [constraint for constraint in self._shape.spread if constraint.hard]
        self._parts = tuple(domains_of(self._shape, hard, self._placements))
        self._version = self._placements.columns.renewed.version


def domains_of(shape: Shape, constraints: list[SpreadConstraint], placements: ClusterSnapshot) -> list[SpreadDomains]:
    """Constraints with their domains. A node without all the topology keys belongs to no domain."""
    labelled = placements.columns.alive[: placements.columns.size].copy()
    for constraint in constraints:
        labelled &= has_label(placements, Requirement(constraint.topology_key, Operator.EXISTS))
    suits = wanted(shape, placements) if any(c.honors_affinity for c in constraints) else all_rows(placements)
    bears = tolerable(shape, placements) if any(c.honors_taints for c in constraints) else all_rows(placements)
    return [
        _spreading(shape, constraint, _part(constraint, labelled, suits, bears), placements)
        for constraint in constraints
    ]


def _part(constraint: SpreadConstraint, labelled: Mask, suits: Mask, bears: Mask) -> Mask:
    part = labelled
    if constraint.honors_affinity:
        part = part & suits
    if constraint.honors_taints:
        part = part & bears
    return part


def _spreading(shape: Shape, constraint: SpreadConstraint, part: Mask, placements: ClusterSnapshot) -> SpreadDomains:
    column = placements.labels.column(constraint.topology_key)
    counts = placements.counts((constraint.counted(shape.namespace),))
    return SpreadDomains(
        constraint=constraint,
        itself=constraint.counts_itself(dict(shape.labels)),
        sums=DomainSums(counts, column, part),
        codes=column.codes[: placements.columns.size].copy(),
    )
