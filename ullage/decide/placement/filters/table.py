"""FilterTable: filter results per shape over all rows, cached because each scheduling decision reads them."""

from collections.abc import Iterable

import numpy as np

from ullage.decide.placement.filters.codes import CODE, Codes, first_of
from ullage.decide.placement.filters.company import ExistingAntiAffinity, PodAffinityFilter
from ullage.decide.placement.filters.order import judge
from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.decide.placement.filters.row_filters import RowFilters
from ullage.decide.placement.filters.spread import SpreadFilter
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.verdict import Reason, Verdict
from ullage.state.snapshot import ClusterSnapshot

_IN_USE = CODE[Reason.VOLUME_IN_USE]

MOST_SHAPES = 1024
"""Shapes cached; beyond this the least recently used one is dropped."""


class ShapeFilters:
    """Filters of one shape."""

    def __init__(self, shape: Shape, placements: ClusterSnapshot) -> None:
        self._placements = placements
        self.rows = RowFilters(shape, placements)
        """Filters that look only at the row."""
        self._spread = SpreadFilter(shape, placements) if any(c.hard for c in shape.spread) else None
        self._company = PodAffinityFilter(shape, placements) if shape.near or shape.away else None

    def beyond(self, pod: Pod, avoidance: ExistingAntiAffinity) -> Codes | None:
        """Codes of rules that look beyond the row, evaluated after the others; None if no such rule applies."""
        one_pod_only = self.rows.mounts.one_pod_only
        in_use = one_pod_only and any(self._placements.claim_users(claim) for claim in one_pod_only)
        about = self._placements.refusals.about(pod)
        if not in_use and not about and self._spread is None and self._company is None:
            return None
        codes: Codes = np.full(self._placements.columns.size, _IN_USE if in_use else 0, np.uint8)
        if self._spread is not None:
            codes = self._spread.over(codes)
        if self._company is not None:
            codes = self._company.over(codes)
        return avoidance.over(codes, about)


class FilterTable:
    """Filter results for pods that hold no room: remove a placed pod in a what-if before asking where else it fits."""

    def __init__(self, placements: ClusterSnapshot) -> None:
        self._placements = placements
        self._known: dict[Shape, ShapeFilters] = {}
        self._avoidance = ExistingAntiAffinity(placements)

    def codes(self, pod: Pod) -> Codes:
        """Codes of all rows (see `filters.codes`); 0 fits. Read-only, and valid until a change."""
        known = self.verdicts(pod.shape)
        local, beyond = known.rows.refresh(), known.beyond(pod, self._avoidance)
        return local if beyond is None else first_of(local, beyond)

    def beyond(self, pod: Pod, known: ShapeFilters) -> Codes | None:
        """Codes of rules that look beyond the row, by the filters of the pod's shape; None if no such rule applies."""
        return known.beyond(pod, self._avoidance)

    def explain(self, pod: Pod, among: Iterable[str] | None = None) -> dict[str, Verdict]:
        """Verdicts on all nodes, or on those `among`, with details, in the order of node names."""
        question = PodQuery(pod, self._placements)
        nodes = self._placements.state.nodes
        return {name: judge(question, nodes[name]) for name in sorted(nodes if among is None else among)}

    def verdicts(self, shape: Shape) -> ShapeFilters:
        """Filters of a shape, from the cache."""
        known = self._known.pop(shape, None)
        if known is None:
            known = ShapeFilters(shape, self._placements)
            if len(self._known) >= MOST_SHAPES:
                del self._known[next(iter(self._known))]
        self._known[shape] = known  # last in the dict: most recently used
        return known
