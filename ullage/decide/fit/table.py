"""Verdicts on all nodes for one pod after another: what a scheduler asks thousands of times a second."""

from collections.abc import Iterable

import numpy as np

from ullage.decide.fit.codes import CODE, Codes, first_of
from ullage.decide.fit.rules.order import judge
from ullage.decide.fit.rules.question import Question
from ullage.decide.fit.vectors.company import Avoidance, CompanyVerdicts
from ullage.decide.fit.vectors.local import LocalVerdicts
from ullage.decide.fit.vectors.spread import SpreadVerdicts
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.verdict import Reason, Verdict
from ullage.state.placements import Placements

_IN_USE = CODE[Reason.VOLUME_IN_USE]

MOST_SHAPES = 1024
"""Shapes remembered; when there are more, the one asked for longest ago is forgotten."""


class ShapeVerdicts:
    """What is kept for one shape."""

    def __init__(self, shape: Shape, placements: Placements) -> None:
        self._placements = placements
        self.rows = LocalVerdicts(shape, placements)
        """What each row says by itself."""
        self._spread = SpreadVerdicts(shape, placements) if any(c.hard for c in shape.spread) else None
        self._company = CompanyVerdicts(shape, placements) if shape.near or shape.away else None

    def beyond(self, pod: Pod, avoidance: Avoidance) -> Codes | None:
        """What the rules say that look beyond the row, which are asked after the others; None if nobody asks them."""
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


class FitTable:
    """Asks about pods that hold no room: take a placed pod out, in a what-if, before asking where else it could go."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self._known: dict[Shape, ShapeVerdicts] = {}
        self._avoidance = Avoidance(placements)

    def codes(self, pod: Pod) -> Codes:
        """A code for every row (see `codes`); 0 fits. Not to be written to, and good until something changes."""
        known = self.verdicts(pod.shape)
        local, beyond = known.rows.refresh(), known.beyond(pod, self._avoidance)
        return local if beyond is None else first_of(local, beyond)

    def beyond(self, pod: Pod, known: ShapeVerdicts) -> Codes | None:
        """What rules that look beyond the row say, as `known` of the pod's shape; None if nobody asks them."""
        return known.beyond(pod, self._avoidance)

    def explain(self, pod: Pod, among: Iterable[str] | None = None) -> dict[str, Verdict]:
        """The verdict on every node, or on these, in words and in the order of their names."""
        question = Question(pod, self._placements)
        nodes = self._placements.state.nodes
        return {name: judge(question, nodes[name]) for name in sorted(nodes if among is None else among)}

    def verdicts(self, shape: Shape) -> ShapeVerdicts:
        """What is kept for a shape."""
        known = self._known.pop(shape, None)
        if known is None:
            known = ShapeVerdicts(shape, self._placements)
            if len(self._known) >= MOST_SHAPES:
                del self._known[next(iter(self._known))]
        self._known[shape] = known  # last in the dict: asked for most recently
        return known
