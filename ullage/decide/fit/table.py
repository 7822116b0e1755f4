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


class _Remembered:
    """What is kept for one shape."""

    def __init__(self, shape: Shape, placements: Placements) -> None:
        self.local = LocalVerdicts(shape, placements)
        self.spread = SpreadVerdicts(shape, placements) if any(c.hard for c in shape.spread) else None
        self.company = CompanyVerdicts(shape, placements) if shape.near or shape.away else None


class FitTable:
    """Asks about pods that hold no room: take a placed pod out, in a what-if, before asking where else it could go."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self._known: dict[Shape, _Remembered] = {}
        self._avoidance = Avoidance(placements)

    def codes(self, pod: Pod) -> Codes:
        """A code for every row (see `codes`); 0 fits. Not to be written to, and good until something changes."""
        known = self._remember(pod.shape)
        local = known.local.refresh()
        beyond = self._beyond(known, pod)
        return local if beyond is None else first_of(local, beyond)

    def local(self, shape: Shape) -> Codes:
        """What each row says by itself. The same promise."""
        return self._remember(shape).local.refresh()

    def beyond(self, pod: Pod) -> Codes | None:
        """What the rules say that look beyond the row, which are asked after the others; None if nobody asks them."""
        return self._beyond(self._remember(pod.shape), pod)

    def _beyond(self, known: _Remembered, pod: Pod) -> Codes | None:
        in_use = any(self._placements.claim_users(claim) for claim in known.local.mounts.one_pod_only)
        about = self._placements.refusals.about(pod)
        if not in_use and not about and known.spread is None and known.company is None:
            return None
        codes: Codes = np.full(self._placements.columns.size, _IN_USE if in_use else 0, np.uint8)
        if known.spread is not None:
            codes = known.spread.over(codes)
        if known.company is not None:
            codes = known.company.over(codes)
        return self._avoidance.over(codes, about)

    def explain(self, pod: Pod, among: Iterable[str] | None = None) -> dict[str, Verdict]:
        """The verdict on every node, or on these, in words and in the order of their names."""
        question = Question(pod, self._placements)
        nodes = self._placements.state.nodes
        return {name: judge(question, nodes[name]) for name in sorted(nodes if among is None else among)}

    def _remember(self, shape: Shape) -> _Remembered:
        known = self._known.pop(shape, None)
        if known is None:
            known = _Remembered(shape, self._placements)
            if len(self._known) >= MOST_SHAPES:
                del self._known[next(iter(self._known))]
        self._known[shape] = known  # last in the dict: asked for most recently
        return known
