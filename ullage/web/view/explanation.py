"""Explanation of one pod for the page: the output of `ullage explain`, grouped to stay readable with thousands of
nodes.
"""

from collections.abc import Mapping

import msgspec

from ullage.decide.explain.pod import ExplainedState, PodExplanation, explain_pod
from ullage.decide.explain.scale_up import forecast
from ullage.decide.karpenter.outlook import explain_capacity
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant
from ullage.model.verdict import Reason, Verdict
from ullage.web.view.model import DashboardModel
from ullage.web.view.rows import ViewRow

MOST_NAMED = 200
"""Nodes named per reason and detail, at most."""


class VerdictGroup(ViewRow, frozen=True, kw_only=True):
    """Nodes with the same verdict."""

    reason: str
    detail: str = ""
    count: int
    nodes: tuple[str, ...]
    """First of them, by name."""


class ExplanationView(ViewRow, frozen=True, kw_only=True):
    """Full explanation of one pod's placement."""

    pod: str
    verdict: str
    message: str
    node: str = ""
    groups: tuple[VerdictGroup, ...] = ()
    helps: tuple[str, ...] = ()


def explained(model: DashboardModel, key: ObjectKey, *, now: float) -> ExplanationView | None:
    """Explanation of a pod; None if there is no such pod."""
    snapshot = model.snapshot
    pod = snapshot.state.pods.get(key)
    if pod is None:
        return None
    known = model.plan_inputs()
    pools = known.pools
    said = explain_pod(snapshot, pod, known, now=Instant(now), policy=model.policy)
    steps = said.steps
    if said.verdict == ExplainedState.UNSCHEDULABLE:
        bought = explain_capacity(model.capacity.facts, pod, now=Instant(now))
        steps = tuple(dict.fromkeys((*steps, *bought, *forecast(model.assigner, pod, pools, now=Instant(now)))))
    return ExplanationView(
        pod=str(key), verdict=str(said.verdict), message=said.message, node=pod.node, groups=_groups(said), helps=steps
    )


def _groups(said: PodExplanation) -> tuple[VerdictGroup, ...]:
    """Groups: nodes that fit first, then by number of nodes."""
    by_answer: dict[tuple[str, str], list[str]] = {}
    for node, verdict in _in_order(said.nodes):
        by_answer.setdefault((verdict.reason.value, verdict.detail), []).append(node)
    groups = [
        VerdictGroup(reason=reason, detail=detail, count=len(nodes), nodes=tuple(nodes[:MOST_NAMED]))
        for (reason, detail), nodes in by_answer.items()
    ]
    return tuple(sorted(groups, key=lambda one: (one.reason != Reason.FITS.value, -one.count, one.reason, one.nodes)))


def _in_order(nodes: Mapping[str, Verdict]) -> list[tuple[str, Verdict]]:
    return sorted(nodes.items(), key=lambda entry: entry[0])


def as_json(said: ExplanationView) -> bytes:
    return msgspec.json.encode(said)
