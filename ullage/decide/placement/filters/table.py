"""FilterTable: filter results per shape over all rows, cached because each scheduling decision reads them."""

from collections.abc import Iterable

from ullage.decide.placement.filters.codes import Codes, first_of
from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.decide.placement.filters.row_filters import RowFilters
from ullage.decide.placement.filters.rule import ClusterFilter
from ullage.decide.placement.filters.rules import CLUSTER_RULES, check_node
from ullage.model.pod import Pod
from ullage.model.shape import Shape, interned
from ullage.model.verdict import Verdict
from ullage.state.snapshot import ClusterSnapshot

MOST_SHAPES = 1024
"""Shapes cached; beyond this the least recently used one is dropped."""

_BINDS = tuple({rule.bind: rule.shared for rule in CLUSTER_RULES}.items())
"""Vector tests of rules that look beyond the row, each once, in order; True if one serves all shapes."""


class ShapeFilters:
    """Filters of one shape."""

    def __init__(self, shape: Shape, snapshot: ClusterSnapshot, beyond: list[ClusterFilter]) -> None:
        self.rows = RowFilters(shape, snapshot)
        """Filters that look only at the row."""
        self._beyond = beyond

    def beyond(self, pod: Pod) -> Codes | None:
        """Codes of rules that look beyond the row, evaluated after the others; None if no such rule applies."""
        codes: Codes | None = None
        for bound in self._beyond:
            codes = bound.over(codes, pod)
        return codes

    def each_beyond(self, pod: Pod) -> list[Codes]:
        """Codes of each rule that looks beyond the row, alone."""
        found = (bound.over(None, pod) for bound in self._beyond)
        return [codes for codes in found if codes is not None]


class FilterTable:
    """Filter results for pods that hold no room: remove a placed pod in a what-if before asking where else it fits."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[Shape, ShapeFilters] = {}
        nothing = interned(Shape())
        self._shared = {bind: bind(nothing, snapshot) for bind, shared in _BINDS if shared}

    def codes(self, pod: Pod) -> Codes:
        """Codes of all rows (see `filters.codes`); 0 fits. Read-only, and valid until a change."""
        known = self.verdicts(pod.shape)
        local, beyond = known.rows.refresh(), known.beyond(pod)
        return local if beyond is None else first_of(local, beyond)

    def explain(self, pod: Pod, among: Iterable[str] | None = None) -> dict[str, Verdict]:
        """Verdicts on all nodes, or on those `among`, with details, in the order of node names."""
        query = PodQuery(pod, self._snapshot)
        nodes = self._snapshot.state.nodes
        return {name: check_node(query, nodes[name]) for name in sorted(nodes if among is None else among)}

    def verdicts(self, shape: Shape) -> ShapeFilters:
        """Filters of a shape, from the cache."""
        known = self._known.pop(shape, None)
        if known is None:
            known = ShapeFilters(shape, self._snapshot, self._bound(shape))
            if len(self._known) >= MOST_SHAPES:
                del self._known[next(iter(self._known))]
        self._known[shape] = known  # last in the dict: most recently used
        return known

    def _bound(self, shape: Shape) -> list[ClusterFilter]:
        bound = (self._shared[bind] if shared else bind(shape, self._snapshot) for bind, shared in _BINDS)
        return [one for one in bound if one is not None]
