"""Why no node will do, reason by reason: how many nodes gave it, and one of them in words."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ullage.decide.fit.codes import FITS, NO_NODE, REASONS, Codes, first_of
from ullage.decide.seat.deciding import Seating
from ullage.model.pod import Pod
from ullage.model.verdict import Reason, Verdict


@dataclass(frozen=True, slots=True)
class Ground:
    """One reason, with the number of nodes it holds for and the first of them by name."""

    reason: Reason
    nodes: int
    example: str = ""
    """Empty where the reason is about the pod and not about nodes."""
    detail: str = ""


def grounds(
    seating: Seating, pod: Pod, *, now: float, closed: Codes | None = None, why_closed: str = ""
) -> list[Ground]:
    """What speaks against a pod that holds no room, the most frequent first. Only one node a reason is put in words.

    `closed` has codes of rows that are refused for other reasons, which `why_closed` says in words.
    """
    columns = seating.placements.columns
    codes = seating.codes(pod, now=now)
    in_order = (codes if closed is None else first_of(codes, closed))[columns.by_name]
    found, first, counts = np.unique(in_order, return_index=True, return_counts=True)
    examples = {
        REASONS[code]: (columns.names[columns.by_name[place]], count)
        for code, place, count in zip(found.tolist(), first.tolist(), counts.tolist(), strict=True)
        if code not in (FITS, NO_NODE)
    }
    words = seating.explain(pod, now=now, among=[node for node, _ in examples.values()])
    listed = [
        # A node that has nothing against the pod is closed for another reason.
        Ground(reason, count, node, why_closed if words[node] else words[node].detail)
        for reason, (node, count) in examples.items()
    ]
    return sorted(listed, key=_order)


def grounds_of(verdicts: Mapping[str, Verdict]) -> list[Ground]:
    """The same from verdicts in words, with the detail that is said most often."""
    by_reason: dict[Reason, dict[str, list[str]]] = {}
    for node, verdict in verdicts.items():
        if not verdict:
            by_reason.setdefault(verdict.reason, {}).setdefault(verdict.detail, []).append(node)
    listed = []
    for reason, details in by_reason.items():
        detail, nodes = max(details.items(), key=lambda entry: len(entry[1]))
        listed.append(Ground(reason, sum(map(len, details.values())), nodes[0], detail))
    return sorted(listed, key=_order)


def pod_ground(verdict: Verdict, nodes: int) -> Ground:
    """A reason that is about the pod: it holds on every node."""
    return Ground(verdict.reason, nodes, "", verdict.detail)


def _order(ground: Ground) -> tuple[int, int]:
    return -ground.nodes, REASONS.index(ground.reason)
