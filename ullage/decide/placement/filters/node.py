"""Filters about the node alone: its name, cordon, readiness, taints and labels."""

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from ullage.decide.placement.filters import masks
from ullage.decide.placement.filters.codes import Codes
from ullage.decide.placement.filters.node_terms import NOT_READY, UNSCHEDULABLE, untolerated
from ullage.decide.placement.filters.rule import (
    NODE_CHANGES,
    Advice,
    BoundFilter,
    FilterRule,
    Lifted,
    Mask,
    NodeRejections,
    Reads,
    RejectionAdviser,
    Rows,
    lifts,
    says,
)
from ullage.model.admission import LEASED_TAINT
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.shape import Shape
from ullage.model.shape_terms import Toleration, any_matches, tolerated
from ullage.model.verdict import CuredBy, Reason
from ullage.state.node_columns import UNREADY_TAINTS, NodeCondition, condition_of
from ullage.state.snapshot import ClusterSnapshot

Detail = Callable[[Shape, Node], str | None]
"""Scalar test on facts of the node alone."""

ConditionDetail = Callable[[Shape, NodeCondition], str | None]
"""Scalar test on the condition of a node."""


class NodeFilter(BoundFilter):
    """Filter on facts of the node alone, for one shape."""

    def __init__(
        self, shape: Shape, snapshot: ClusterSnapshot, detail: Detail, mask: Callable[[Shape, ClusterSnapshot], Mask]
    ) -> None:
        self._shape, self._snapshot, self._detail, self._mask = shape, snapshot, detail, mask

    def rejects(self, rows: Rows) -> Mask:
        found: Mask = self._mask(self._shape, self._snapshot)[rows]
        return found

    def mark(self, codes: Codes, code: int) -> None:
        codes[self._mask(self._shape, self._snapshot)] = code

    def rejects_row(self, row: int) -> bool:
        node = self._snapshot.state.nodes[self._snapshot.columns.names[row]]
        return self._detail(self._shape, node) is not None


class ConditionFilter(BoundFilter):
    """Filter on the condition of the node, for one shape: each condition is asked about once, not each node."""

    def __init__(self, shape: Shape, snapshot: ClusterSnapshot, detail: ConditionDetail) -> None:
        self._shape, self._snapshot, self._detail = shape, snapshot, detail

    def rejects(self, rows: Rows) -> Mask:
        found: Mask = self._all_rows()[rows]
        return found

    def mark(self, codes: Codes, code: int) -> None:
        shape, detail = self._shape, self._detail
        if any(detail(shape, one) is not None for one in self._snapshot.columns.known_conditions):
            codes[self._all_rows()] = code

    def rejects_row(self, row: int) -> bool:
        columns = self._snapshot.columns
        condition = columns.known_conditions.value(columns.conditions.item(row))
        return condition is not None and self._detail(self._shape, condition) is not None

    def _all_rows(self) -> Mask:
        return masks.by_condition(self._snapshot, lambda one: self._detail(self._shape, one) is not None)


def condition_rule(reason: Reason, words: str, advice: Advice, detail: ConditionDetail, **more: Any) -> FilterRule:
    """Rule on the condition of the node: `detail` is both its scalar test and, once per condition, its vector test."""
    return FilterRule(
        reason=reason,
        cure=NODE_CHANGES,
        words=words,
        advice=advice,
        reads=Reads.NODE,
        explain=lambda query, node: detail(query.shape, condition_of(node)),
        bind=lambda shape, snapshot: ConditionFilter(shape, snapshot, detail),
        **more,
    )


def node_rule(
    reason: Reason,
    words: str,
    advice: Advice,
    detail: Detail,
    rejected: Callable[[Shape, ClusterSnapshot], Mask],
    applies: Callable[[Shape], bool] = lambda _: True,
    **more: Any,
) -> FilterRule:
    """Rule on facts of the node alone: `detail` is its scalar test, `rejected` the mask of rejected rows.

    `more` are further fields of the record, such as its headline.
    """

    def bind(shape: Shape, snapshot: ClusterSnapshot) -> BoundFilter | None:
        return NodeFilter(shape, snapshot, detail, rejected) if applies(shape) else None

    return FilterRule(
        reason=reason,
        cure=NODE_CHANGES,
        words=words,
        advice=advice,
        reads=Reads.NODE,
        explain=lambda query, node: detail(query.shape, node),
        bind=bind,
        **more,
    )


def _named_otherwise(shape: Shape, node: Node) -> str | None:
    return f"only {shape.node_name} will do" if shape.node_name and shape.node_name != node.name else None


def _other_rows(shape: Shape, snapshot: ClusterSnapshot) -> Mask:
    named = snapshot.columns.rows.get(shape.node_name)
    others: Mask = np.arange(snapshot.columns.size) != (-1 if named is None else named)
    return others


def _cordoned(shape: Shape, node: NodeCondition) -> str | None:
    refused = node.unschedulable and not tolerated(UNSCHEDULABLE, shape.tolerations)
    return "the node is cordoned" if refused else None


def _starting(shape: Shape, node: NodeCondition) -> str | None:
    if node.awaits_gpus and _asks_gpus(shape):
        return "its GPUs have not appeared yet"
    refused = node.starting and (_unready(shape, node) is not None or untolerated(shape, node.taints) is not None)
    return "the node has registered and is not ready yet" if refused else None


def _asks_gpus(shape: Shape) -> bool:
    return any(name == GPU for name, _ in shape.requests)


def _unready(shape: Shape, node: NodeCondition) -> str | None:
    """The taint says it. Until a node that is not ready is tainted, the taint it will get counts: kube-scheduler
    goes by the taint alone, and is late by as much."""
    if node.ready:
        return None
    tainted = tuple(taint for taint in node.taints if taint.key in UNREADY_TAINTS) or (NOT_READY,)
    return "the node is not ready" if untolerated(shape, tainted) is not None else None


def _tainted(shape: Shape, node: NodeCondition) -> str | None:
    taint = untolerated(shape, node.taints)
    if taint is None:
        return None
    value = f"={taint.value}" if taint.value else ""
    return f"taint {taint.key}{value}:{taint.effect}"


def _labelled_otherwise(shape: Shape, node: Node) -> str | None:
    for key, value in shape.node_selector:
        if node.labels.get(key) != value:
            has = f"it has {node.labels[key]}" if key in node.labels else "it has no such label"
            return f"wants {key}={value}; {has}"
    if shape.node_affinity is None or any_matches(shape.node_affinity, node.labels, node.name):
        return None
    return "no term of its node affinity holds"


def tolerating(taint: str = "") -> Lifted:
    """Add a toleration of one taint, or of every taint."""
    more = Toleration(key=taint, exists=True)
    return lambda shape: replace(shape, tolerations=(*shape.tolerations, more))


def _bearing_unready(shape: Shape) -> Shape:
    more = tuple(Toleration(key=key, exists=True) for key in sorted(UNREADY_TAINTS))
    return replace(shape, tolerations=(*shape.tolerations, *more))


def _anywhere(shape: Shape) -> Shape:
    return replace(shape, node_selector=(), node_affinity=None)


def _advise_on_taint(adviser: RejectionAdviser, pod: Pod, rejection: NodeRejections) -> str:
    """No pod tolerates the taint of leased nodes by itself: pods there have a claim, and see their GPUs only."""
    if LEASED_TAINT not in adviser.lifting(pod, rejection, "{detail}", tolerating()):
        return adviser.lifting(pod, rejection, "tolerate {detail}, as on {node}", tolerating())
    if pod.claim or pod.claim_template:
        return adviser.lifting(
            pod, rejection, f"create {pod.key} again while the webhook runs, for {{node}}", tolerating()
        )
    text = "name a GpuClaim in the annotation gpu.scheduling/claim: {node} gives its GPUs by claims only"
    return adviser.lifting(pod, rejection, text, tolerating())


def _advise_on_labels(adviser: RejectionAdviser, pod: Pod, rejection: NodeRejections) -> str:
    wanted = ", ".join(f"{key}={value}" for key, value in pod.shape.node_selector)
    near = adviser.lifting(pod, rejection, "; {node} would fit with it", _anywhere)
    return f"a node with {wanted}{near}" if wanted else f"a node the pod's node affinity accepts{near}"


NODE_RULES = (
    node_rule(
        Reason.NOT_THE_NODE_NAMED,
        "The pod names another node in `spec.nodeName`.",
        says("bring the node it names: {detail}"),
        _named_otherwise,
        _other_rows,
        lambda shape: bool(shape.node_name),
        headline="the node that it names in spec.nodeName is not there",
        nearness=CuredBy.CHOICE,
    ),
    condition_rule(
        Reason.NODE_UNSCHEDULABLE,
        "The node is cordoned.",
        lifts("uncordon {node}", tolerating(UNSCHEDULABLE.key)),
        _cordoned,
        headline="the nodes that could take it are cordoned",
        nearness=CuredBy.REPAIR,
    ),
    condition_rule(
        Reason.NODE_STARTING,
        "The node has registered and is not ready yet, or the GPUs of a node of a pool have not appeared yet.",
        says("wait: {node} is starting: {detail}"),
        _starting,
        headline="the node that could take it is still starting",
        nearness=CuredBy.TIME,
    ),
    condition_rule(
        Reason.NODE_NOT_READY,
        "The node was ready and is not any more.",
        lifts("bring {node} back to Ready", _bearing_unready),
        _unready,
        headline="the nodes that could take it are not ready",
        nearness=CuredBy.REPAIR,
    ),
    condition_rule(
        Reason.TAINT_NOT_TOLERATED,
        "The node has a NoSchedule or NoExecute taint that the pod does not tolerate.",
        _advise_on_taint,
        _tainted,
        headline="the nodes that could take it have a taint that it does not tolerate",
    ),
    node_rule(
        Reason.NODE_SELECTOR_MISMATCH,
        "The node's labels do not suit the pod's node selector, node affinity or the node labels of its GpuClaim.",
        _advise_on_labels,
        _labelled_otherwise,
        lambda shape, snapshot: ~masks.wanted(shape, snapshot),
        lambda shape: bool(shape.node_selector) or shape.node_affinity is not None,
        headline="no node that could take it has the labels that it asks for",
        nearness=CuredBy.CHOICE,
    ),
)
"""Rules in the order they are evaluated."""
