"""Filters of hard spread constraints."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.filters.codes import CODE, Codes, first_of
from ullage.decide.placement.filters.masks import Mask, all_rows, has_label, tolerable, wanted
from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.decide.placement.filters.rule import NODE_CHANGES, OTHER_PODS, ClusterFilter, ClusterRule, says
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.selector import Operator, Requirement
from ullage.model.shape import Shape
from ullage.model.shape_terms import SpreadConstraint
from ullage.model.verdict import Reason, Verdict
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

    def __init__(self, shape: Shape, snapshot: ClusterSnapshot) -> None:
        self._shape = shape
        self._snapshot = snapshot
        self._version = -1
        self._parts: tuple[SpreadDomains, ...] = ()

    def over(self, codes: Codes | None, _: Pod) -> Codes | None:
        """Codes, with this filter's refusals where `codes` fit."""
        current = self._version == self._snapshot.columns.renewed.version
        if not current or not all(part.sums.counts.kept for part in self._parts):
            self._rebuild()
        for part in self._parts:
            refusals = part.refusals()
            codes = refusals if codes is None else first_of(codes, refusals)
        return codes

    def _rebuild(self) -> None:
        hard = [constraint for constraint in self._shape.spread if constraint.hard]
        self._parts = tuple(domains_of(self._shape, hard, self._snapshot))
        self._version = self._snapshot.columns.renewed.version


def domains_of(shape: Shape, constraints: list[SpreadConstraint], snapshot: ClusterSnapshot) -> list[SpreadDomains]:
    """Constraints with their domains. A node without all the topology keys belongs to no domain."""
    labelled = snapshot.columns.alive[: snapshot.columns.size].copy()
    for constraint in constraints:
        labelled &= has_label(snapshot, Requirement(constraint.topology_key, Operator.EXISTS))
    suits = wanted(shape, snapshot) if any(c.honors_affinity for c in constraints) else all_rows(snapshot)
    bears = tolerable(shape, snapshot) if any(c.honors_taints for c in constraints) else all_rows(snapshot)
    return [
        _spreading(shape, constraint, _part(constraint, labelled, suits, bears), snapshot) for constraint in constraints
    ]


def _part(constraint: SpreadConstraint, labelled: Mask, suits: Mask, bears: Mask) -> Mask:
    part = labelled
    if constraint.honors_affinity:
        part = part & suits
    if constraint.honors_taints:
        part = part & bears
    return part


def _spreading(shape: Shape, constraint: SpreadConstraint, part: Mask, snapshot: ClusterSnapshot) -> SpreadDomains:
    column = snapshot.labels.column(constraint.topology_key)
    counts = snapshot.counts((constraint.counted(shape.namespace),))
    return SpreadDomains(
        constraint=constraint,
        itself=constraint.counts_itself(dict(shape.labels)),
        sums=DomainSums(counts, column, part),
        codes=column.codes[: snapshot.columns.size].copy(),
    )


def _first_refusal(query: PodQuery, node: Node) -> Verdict | None:
    """Answer of the first constraint that rejects the node, whichever of the two reasons it gives."""
    for domains in query.spread:
        constraint = domains.constraint
        value = node.labels.get(constraint.topology_key)
        if value is None:
            return Verdict(Reason.SPREAD_KEY_MISSING, f"the node has no label {constraint.topology_key}")
        itself = constraint.counts_itself(dict(query.shape.labels))
        here = domains.pods.get(value, 0) + itself
        if here - domains.least > constraint.max_skew:
            return Verdict(
                Reason.SPREAD_TOO_UNEVEN,
                f"{constraint.topology_key}={value} would have {here} pods, the least is {domains.least},"
                f" allowed difference {constraint.max_skew}",
            )
    return None


def _detail_if(reason: Reason) -> Callable[[PodQuery, Node], str | None]:
    def explain(query: PodQuery, node: Node) -> str | None:
        refusal = _first_refusal(query, node)
        return refusal.detail if refusal is not None and refusal.reason is reason else None

    return explain


def _bind(shape: Shape, snapshot: ClusterSnapshot) -> ClusterFilter | None:
    return SpreadFilter(shape, snapshot) if any(constraint.hard for constraint in shape.spread) else None


SPREAD_RULES = (
    ClusterRule(
        reason=Reason.SPREAD_KEY_MISSING,
        cure=NODE_CHANGES,
        words="The node lacks a topology label that a hard spread constraint of the pod names.",
        advice=says("label {node}: {detail}"),
        headline="the nodes that could take it lack a label that its spread constraint names",
        explain=_detail_if(Reason.SPREAD_KEY_MISSING),
        bind=_bind,
    ),
    ClusterRule(
        reason=Reason.SPREAD_TOO_UNEVEN,
        cure=OTHER_PODS,
        words="The pod would make the spread of its kind more uneven than `maxSkew` allows.",
        advice=says("room where fewer pods of its kind are, or a larger maxSkew: {detail}"),
        headline="the nodes that could take it would make its spread too uneven",
        explain=_detail_if(Reason.SPREAD_TOO_UNEVEN),
        bind=_bind,
    ),
)
