"""Filters of required affinity and anti-affinity between pods, in both directions."""

import numpy as np

from ullage.decide.placement.filters.codes import CODE, Codes, first_of
from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.decide.placement.filters.rule import OTHER_PODS, ClusterFilter, ClusterRule, cure, says
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.shape_terms import PodTerm
from ullage.model.verdict import ClusterEvent, Reason
from ullage.state.domains import DomainSums
from ullage.state.pod_counts import RowCounts
from ullage.state.snapshot import ClusterSnapshot

_UNMET = CODE[Reason.POD_AFFINITY_UNMET]
_AVOIDED = CODE[Reason.POD_ANTI_AFFINITY]
_AVOIDING = CODE[Reason.EXISTING_ANTI_AFFINITY]


class PodAffinityFilter:
    """Required pod affinity and anti-affinity of one shape."""

    def __init__(self, shape: Shape, snapshot: ClusterSnapshot) -> None:
        self._shape = shape
        self._snapshot = snapshot
        self._version = -1
        self._near: dict[str, DomainSums] = {}
        self._away: list[tuple[str, DomainSums]] = []

    def over(self, codes: Codes | None, _: Pod) -> Codes | None:
        """Codes, with this filter's refusals where `codes` fit."""
        if not self._current():
            self._rebuild()
        codes = no_refusals(self._snapshot) if codes is None else codes
        if self._shape.near:
            codes = self._over_near(codes)
        for key, sums in self._away:
            by_value = np.where(sums.refresh() > 0, _AVOIDED, 0).astype(np.uint8)
            codes = first_of(codes, by_row(by_value, key, self._snapshot))
        return codes

    def _current(self) -> bool:
        if self._version != self._snapshot.columns.renewed.version:
            return False
        return all(sums.counts.kept for sums in (*self._near.values(), *(sums for _, sums in self._away)))

    def _over_near(self, codes: Codes) -> Codes:
        sums = {key: near.refresh() for key, near in self._near.items()}
        first_of_its_kind = not any(each.any() for each in sums.values()) and self._wants_itself()
        for key, each in sums.items():
            by_value = np.where((each > 0) | first_of_its_kind, 0, _UNMET).astype(np.uint8)
            by_value[-1] = _UNMET
            codes = first_of(codes, by_row(by_value, key, self._snapshot))
        return codes

    def _wants_itself(self) -> bool:
        shape = self._shape
        labels, place = dict(shape.labels), self._snapshot.state.namespace_labels(shape.namespace)
        return all(term.pods.matches(shape.namespace, labels, place) for term in shape.near)

    def _rebuild(self) -> None:
        snapshot = self._snapshot
        if self._shape.near:
            counts = snapshot.counts(tuple(term.pods for term in self._shape.near))
            keys = dict.fromkeys(term.topology_key for term in self._shape.near)
            self._near = {key: DomainSums(counts, snapshot.labels.column(key)) for key in keys}
        self._away = [
            (
                term.topology_key,
                DomainSums(snapshot.counts((term.pods,)), snapshot.labels.column(term.topology_key)),
            )
            for term in self._shape.away
        ]
        self._version = snapshot.columns.renewed.version


class ExistingAntiAffinity:
    """Required anti-affinity of placed pods towards the pod being placed."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._version = -1
        self._sums: dict[PodTerm, DomainSums] = {}

    def over(self, codes: Codes | None, pod: Pod) -> Codes | None:
        """Codes, with refusals by terms of placed pods that match the pod where `codes` fit."""
        about = self._snapshot.placed.refusals.about(pod)
        for term, _, counts in about:
            sums = self._of(term, counts).refresh()
            by_value = np.where(sums > 0, _AVOIDING, 0).astype(np.uint8)
            refusals = by_row(by_value, term.topology_key, self._snapshot)
            codes = refusals if codes is None else first_of(codes, refusals)
        return codes

    def _of(self, term: PodTerm, counts: RowCounts) -> DomainSums:
        version = self._snapshot.columns.renewed.version
        if self._version != version:
            self._sums.clear()
            self._version = version
        known = self._sums.get(term)
        if known is None or known.counts is not counts:
            known = self._sums[term] = DomainSums(counts, self._snapshot.labels.column(term.topology_key))
        return known


def by_row(by_value: Codes, key: str, snapshot: ClusterSnapshot) -> Codes:
    """Codes by row from codes by value of a label; the last place of `by_value` is for rows without the label."""
    return by_value[snapshot.labels.column(key).codes[: snapshot.columns.size]]


def no_refusals(snapshot: ClusterSnapshot) -> Codes:
    return np.zeros(snapshot.columns.size, np.uint8)


def _apart_from_pods_it_wants(query: PodQuery, node: Node) -> str | None:
    terms = query.shape.near
    for term in terms:
        if term.topology_key not in node.labels:
            return f"the node has no label {term.topology_key}"
    for term in terms:
        value = node.labels[term.topology_key]
        if query.near.get((term.topology_key, value), 0) <= 0:
            if _is_first_of_its_kind(query):
                return None
            return f"no pod it wants near is in {term.topology_key}={value}"
    return None


def _is_first_of_its_kind(query: PodQuery) -> bool:
    """True if no pod matches its affinity anywhere and the pod matches it itself: then it is the first of its group."""
    return not query.near and all(query.meant(term, query.pod) for term in query.shape.near)


def _beside_pods_it_avoids(query: PodQuery, node: Node) -> str | None:
    for term in query.shape.away:
        value = node.labels.get(term.topology_key)
        if value is not None and query.away.get((term.topology_key, value), 0) > 0:
            return f"a pod it avoids is in {term.topology_key}={value}"
    return None


def _beside_pods_that_avoid_it(query: PodQuery, node: Node) -> str | None:
    for (key, value), pods in query.refused.items():
        if pods > 0 and node.labels.get(key) == value:
            return f"a pod in {key}={value} avoids it"
    return None


def _bind(shape: Shape, snapshot: ClusterSnapshot) -> ClusterFilter | None:
    return PodAffinityFilter(shape, snapshot) if shape.near or shape.away else None


AFFINITY_RULES = (
    ClusterRule(
        reason=Reason.POD_AFFINITY_UNMET,
        cure=cure(ClusterEvent.NODE_CHANGED, ClusterEvent.POD_ARRIVED),
        words="No pod that the pod's required affinity asks for is in the node's topology domain.",
        advice=says("place the pods it wants near first: {detail}"),
        headline="no pod that it must be near is where a node could take it",
        explain=_apart_from_pods_it_wants,
        bind=_bind,
    ),
    ClusterRule(
        reason=Reason.POD_ANTI_AFFINITY,
        cure=OTHER_PODS,
        words="A pod that the pod's required anti-affinity avoids is in the node's topology domain.",
        advice=says("a node without the pods it avoids: {detail}"),
        headline="the nodes that could take it have pods that it must be apart from",
        explain=_beside_pods_it_avoids,
        bind=_bind,
    ),
    ClusterRule(
        reason=Reason.EXISTING_ANTI_AFFINITY,
        cure=OTHER_PODS,
        words="The required anti-affinity of a pod in the node's topology domain avoids the pod.",
        advice=says("a node without the pods that avoid it: {detail}"),
        headline="the nodes that could take it have pods that must be apart from it",
        explain=_beside_pods_that_avoid_it,
        bind=lambda _, snapshot: ExistingAntiAffinity(snapshot),
        shared=True,
    ),
)
"""Rules in the order they are evaluated."""
