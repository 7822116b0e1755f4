"""Taints and labels of one node against a shape: tests that filters, spread constraints and queries share."""

from ullage.model.node import Node, Taint
from ullage.model.shape import Shape
from ullage.model.shape_terms import any_matches, tolerated

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
"""Taint a node that is not ready will get. Pods that tolerate it may go there before the taint is set."""

KEEPING_OFF = frozenset({"NoSchedule", "NoExecute"})


def untolerated(shape: Shape, taints: tuple[Taint, ...]) -> Taint | None:
    """First NoSchedule or NoExecute taint that the shape does not tolerate."""
    for taint in taints:
        if taint.effect in KEEPING_OFF and not tolerated(taint, shape.tolerations):
            return taint
    return None


def tolerates_all(shape: Shape, node: Node) -> bool:
    return untolerated(shape, node.taints) is None


def wants(shape: Shape, node: Node) -> bool:
    """True if the node's labels suit the shape's node selector and required affinity."""
    if any(node.labels.get(key) != value for key, value in shape.node_selector):
        return False
    return shape.node_affinity is None or any_matches(shape.node_affinity, node.labels, node.name)
