"""Explanation of one pod for the page: the output of `ullage explain`, grouped to stay readable with thousands of
nodes.
"""

from collections.abc import Mapping

import msgspec

from ullage.decide.explain.pod import ExplainedState, PodExplanation, explain_pod
from ullage.decide.explain.scale_up import forecast
from ullage.decide.karpenter.outlook import explain_capacity
from ullage.decide.placement.prefilter import claim_of
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import ObjectKey
from ullage.model.verdict import Reason, Verdict
from ullage.web.view.cluster_copy import ClusterCopy
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
    claim: str = ""
    """`namespace/name` of its GpuClaim, and of its gang."""
    gang: str = ""
    groups: tuple[VerdictGroup, ...] = ()
    helps: tuple[str, ...] = ()


def explained(copy: ClusterCopy, key: ObjectKey) -> ExplanationView | None:
    """Explanation of a pod; None if there is no such pod."""
    snapshot, now = copy.snapshot, copy.now
    pod = snapshot.state.pods.get(key)
    if pod is None:
        return None
    said = explain_pod(snapshot, pod, copy.known, now=now, policy=copy.policy)
    steps = said.steps
    if said.verdict == ExplainedState.UNSCHEDULABLE:
        bought = explain_capacity(copy.capacity, pod, now=now)
        foreseen = forecast(PodAssigner(snapshot, copy.policy), pod, copy.known.pools, now=now)
        steps = tuple(dict.fromkeys((*steps, *bought, *foreseen)))
    claim = claim_of(pod, snapshot.state)
    return ExplanationView(
        pod=str(key),
        verdict=str(said.verdict),
        message=said.message,
        node=pod.node,
        claim="" if claim is None else str(claim.key),
        gang="" if claim is None or not claim.gang else str(ObjectKey(key.namespace, claim.gang)),
        groups=_groups(said),
        helps=steps,
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
