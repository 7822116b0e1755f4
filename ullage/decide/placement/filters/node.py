"""Filter rules about the node alone: its name, cordon, readiness, taints and labels."""

from ullage.model.node import Node, Taint
from ullage.model.shape import Shape
from ullage.model.shape_terms import any_matches, tolerated
from ullage.model.verdict import Reason, Verdict
from ullage.state.node_columns import unready_without_saying

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
"""Taint a node that is not ready will get. Pods that tolerate it may go there before the taint is set."""

KEEPING_OFF = frozenset({"NoSchedule", "NoExecute"})


def pod_names_another_node(shape: Shape, node: Node) -> Verdict | None:
    if not shape.node_name or shape.node_name == node.name:
        return None
    return Verdict(Reason.NOT_THE_NODE_NAMED, f"only {shape.node_name} will do")


def node_takes_no_pods(shape: Shape, node: Node) -> Verdict | None:
    if not node.unschedulable or tolerated(UNSCHEDULABLE, shape.tolerations):
        return None
    return Verdict(Reason.NODE_UNSCHEDULABLE, "the node is cordoned")


def node_is_unready_without_a_taint(shape: Shape, node: Node) -> Verdict | None:
    """Refuse a node that is not ready and not tainted for it yet."""
    if not unready_without_saying(node) or tolerated(NOT_READY, shape.tolerations):
        return None
    return Verdict(Reason.NODE_NOT_READY, "the node is not ready")


def taint_is_not_tolerated(shape: Shape, node: Node) -> Verdict | None:
    taint = untolerated(shape, node.taints)
    if taint is None:
        return None
    value = f"={taint.value}" if taint.value else ""
    return Verdict(Reason.TAINT_NOT_TOLERATED, f"taint {taint.key}{value}:{taint.effect}")


def untolerated(shape: Shape, taints: tuple[Taint, ...]) -> Taint | None:
    """First NoSchedule or NoExecute taint that the shape does not tolerate."""
    for taint in taints:
        if taint.effect in KEEPING_OFF and not tolerated(taint, shape.tolerations):
            return taint
    return None


def tolerates_all(shape: Shape, node: Node) -> bool:
    return untolerated(shape, node.taints) is None


def labels_are_not_those_wanted(shape: Shape, node: Node) -> Verdict | None:
    for key, value in shape.node_selector:
        if node.labels.get(key) != value:
            has = f"it has {node.labels[key]}" if key in node.labels else "it has no such label"
            return Verdict(Reason.NODE_SELECTOR_MISMATCH, f"wants {key}={value}; {has}")
    if shape.node_affinity is None or any_matches(shape.node_affinity, node.labels, node.name):
        return None
    return Verdict(Reason.NODE_SELECTOR_MISMATCH, "no term of its node affinity holds")


def wants(shape: Shape, node: Node) -> bool:
    return labels_are_not_those_wanted(shape, node) is None


NODE_RULES = (
    pod_names_another_node,
    node_takes_no_pods,
    node_is_unready_without_a_taint,
    taint_is_not_tolerated,
    labels_are_not_those_wanted,
)
"""Rules in the order they are evaluated. They read only the shape and the node."""
