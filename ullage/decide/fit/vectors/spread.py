"""Hard spread constraints over all rows: the vector twin of `rules.pods.spread_would_be_too_uneven`."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ullage.decide.fit.codes import CODE, Codes, first_of
from ullage.decide.fit.vectors.masks import Mask, all_rows, has_label, tolerable, wanted
from ullage.model.selector import Operator, Requirement
from ullage.model.shape import Shape
from ullage.model.terms import SpreadConstraint
from ullage.model.verdict import Reason
from ullage.state.domains import DomainSums
from ullage.state.placements import Placements

_MISSING = CODE[Reason.SPREAD_KEY_MISSING]
_UNEVEN = CODE[Reason.SPREAD_TOO_UNEVEN]


@dataclass(frozen=True, slots=True)
class Spreading:
    """One constraint with its counts."""

    constraint: SpreadConstraint
    itself: bool
    sums: DomainSums
    codes: npt.NDArray[np.int32]
    """The domain of each row."""

    def refusals(self) -> Codes:
        sums = self.sums.refresh()
        present = self.sums.present
        enough = present.sum() >= max(self.constraint.min_domains, 1)
        least = int(sums[:-1][present].min()) if enough else 0
        by_value = np.where(sums + self.itself - least > self.constraint.max_skew, _UNEVEN, 0).astype(np.uint8)
        by_value[-1] = _MISSING
        return by_value[self.codes]


class SpreadVerdicts:
    """All hard constraints of one shape."""

    def __init__(self, shape: Shape, placements: Placements) -> None:
        self._shape = shape
        self._placements = placements
        self._version = -1
        self._parts: tuple[Spreading, ...] = ()

    def over(self, codes: Codes) -> Codes:
        """The codes, with what spreading says where they say nothing."""
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


def domains_of(shape: Shape, constraints: list[SpreadConstraint], placements: Placements) -> list[Spreading]:
    """Each constraint with its domains. A node without all the keys is part of none."""
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


def _spreading(shape: Shape, constraint: SpreadConstraint, part: Mask, placements: Placements) -> Spreading:
    column = placements.labels.column(constraint.topology_key)
    counts = placements.counts((constraint.counted(shape.namespace),))
    return Spreading(
        constraint=constraint,
        itself=constraint.counts_itself(dict(shape.labels)),
        sums=DomainSums(counts, column, part),
        codes=column.codes[: placements.columns.size].copy(),
    )
