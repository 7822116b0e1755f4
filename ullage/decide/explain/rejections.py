"""Rejections by reason: the number of nodes that gave it, and one of them in words."""

from collections.abc import Mapping

import numpy as np

from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.placement.filters.codes import FITS, NO_NODE, REASONS, Codes, first_of
from ullage.decide.placement.filters.rule import NodeRejections as NodeRejections
from ullage.model.pod import Pod
from ullage.model.units import Instant
from ullage.model.verdict import Reason, Verdict


def node_rejections(
    engine: PlacementEngine, pod: Pod, *, now: Instant, closed: Codes | None = None, why_closed: str = ""
) -> list[NodeRejections]:
    """Rejections of a pod that is on no node, the most frequent first. Only one node per reason is put in words.

    `closed` has codes of rows that are refused for other reasons, which `why_closed` puts in words.
    """
    columns = engine.snapshot.columns
    codes = engine.codes(pod, now=now)
    in_order = (codes if closed is None else first_of(codes, closed))[columns.by_name]
    found, first, counts = np.unique(in_order, return_index=True, return_counts=True)
    examples = {
        REASONS[code]: (columns.names[columns.by_name[place]], count)
        for code, place, count in zip(found.tolist(), first.tolist(), counts.tolist(), strict=True)
        if code not in (FITS, NO_NODE)
    }
    words = engine.explain(pod, now=now, among=[node for node, _ in examples.values()])
    listed = [
        # A node that fits by its verdict is closed for another reason.
        NodeRejections(reason, count, node, why_closed if words[node] else words[node].detail)
        for reason, (node, count) in examples.items()
    ]
    return sorted(listed, key=_order)


def rejections_of(verdicts: Mapping[str, Verdict]) -> list[NodeRejections]:
    """Rejections from verdicts, each with its most frequent detail."""
    by_reason: dict[Reason, dict[str, list[str]]] = {}
    for node, verdict in verdicts.items():
        if not verdict:
            by_reason.setdefault(verdict.reason, {}).setdefault(verdict.detail, []).append(node)
    listed = []
    for reason, details in by_reason.items():
        detail, nodes = max(details.items(), key=lambda entry: len(entry[1]))
        listed.append(NodeRejections(reason, sum(map(len, details.values())), nodes[0], detail))
    return sorted(listed, key=_order)


def pod_rejection(verdict: Verdict, nodes: int) -> NodeRejections:
    """A rejection about the pod: it holds on every node."""
    return NodeRejections(verdict.reason, nodes, "", verdict.detail)


def _order(rejection: NodeRejections) -> tuple[int, int]:
    return -rejection.nodes, REASONS.index(rejection.reason)
