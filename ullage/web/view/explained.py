"""One pod explained for the page: what `ullage explain` says, grouped so that a thousand nodes stay readable."""

from collections.abc import Mapping

import msgspec

from ullage.decide.assigning import Assigner
from ullage.decide.explaining import Explanation, Outcome, explain_pod
from ullage.decide.planning import Known
from ullage.decide.pool.foretelling import foretold
from ullage.model.event import ObjectKey
from ullage.model.verdict import Reason, Verdict
from ullage.web.view.picture import Picture
from ullage.web.view.rows import Row

MOST_NAMED = 200
"""Nodes named for one reason and detail."""


class Group(Row, frozen=True, kw_only=True):
    """Nodes that say the same."""

    reason: str
    detail: str = ""
    count: int
    nodes: tuple[str, ...]
    """The first of them, by name."""


class Explained(Row, frozen=True, kw_only=True):
    """All there is to say of one pod's place."""

    pod: str
    verdict: str
    message: str
    node: str = ""
    groups: tuple[Group, ...] = ()
    helps: tuple[str, ...] = ()


def explained(picture: Picture, key: ObjectKey, *, now: float) -> Explained | None:
    """None where there is no such pod."""
    placements = picture.placements
    pod = placements.state.pods.get(key)
    if pod is None:
        return None
    said = explain_pod(placements, pod, Known(), now=now, policy=picture.policy)
    steps = said.steps
    if said.verdict == Outcome.UNSCHEDULABLE:
        pools = [picture.pools[name].facts for name in sorted(picture.pools)]
        steps = (*steps, *foretold(Assigner(placements, picture.policy), pod, pools, now=now))
    return Explained(
        pod=str(key), verdict=str(said.verdict), message=said.message, node=pod.node, groups=_groups(said), helps=steps
    )


def _groups(said: Explanation) -> tuple[Group, ...]:
    """Those that fit first, then by how many say it."""
    by_answer: dict[tuple[str, str], list[str]] = {}
    for node, verdict in _in_order(said.nodes):
        by_answer.setdefault((verdict.reason.value, verdict.detail), []).append(node)
    groups = [
        Group(reason=reason, detail=detail, count=len(nodes), nodes=tuple(nodes[:MOST_NAMED]))
        for (reason, detail), nodes in by_answer.items()
    ]
    return tuple(sorted(groups, key=lambda one: (one.reason != Reason.FITS.value, -one.count, one.reason, one.nodes)))


def _in_order(nodes: Mapping[str, Verdict]) -> list[tuple[str, Verdict]]:
    return sorted(nodes.items(), key=lambda entry: entry[0])


def as_json(said: Explained) -> bytes:
    return msgspec.json.encode(said)
