"""Filter rules about room on the node: host ports, number of pods, resources."""

from collections.abc import Mapping

from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.model.node import Node
from ullage.model.resources import MILLI, total
from ullage.model.verdict import Reason, Verdict

_BYTES = ("memory", "ephemeral-storage", "hugepages-")


def host_port_is_taken(question: PodQuery, node: Node) -> Verdict | None:
    if not question.shape.host_ports:
        return None
    for pod in question.pods_on(node):
        for taken in pod.shape.host_ports:
            for wanted in question.shape.host_ports:
                if wanted.conflicts(taken):
                    return Verdict(Reason.HOST_PORT_TAKEN, f"{wanted} is taken by {pod.key}")
    return None


def node_is_too_small(question: PodQuery, node: Node) -> Verdict | None:
    for name, amount in question.shape.requests:
        offered = node.allocatable.get(name, 0)
        if amount > offered:
            return Verdict(
                Reason.NODE_TOO_SMALL, f"wants {spoken(name, amount)} of {name}, the node has {spoken(name, offered)}"
            )
    return None


def node_is_full_of_pods(question: PodQuery, node: Node) -> Verdict | None:
    slots, pods = node.allocatable.get("pods", 0) // MILLI, len(question.pods_on(node))
    return Verdict(Reason.TOO_MANY_PODS, f"{pods} pods, {slots} allowed") if pods + 1 > slots else None


def resources_are_taken(question: PodQuery, node: Node) -> Verdict | None:
    if not question.shape.requests:
        return None
    used = total(dict(pod.shape.requests) for pod in question.pods_on(node))
    short = [_shortage(name, amount, node, used) for name, amount in question.shape.requests]
    said = "; ".join(each for each in short if each)
    return Verdict(Reason.INSUFFICIENT_RESOURCES, said) if said else None


def _shortage(name: str, amount: int, node: Node, used: Mapping[str, int]) -> str:
    offered = node.allocatable.get(name, 0)
    free = offered - used.get(name, 0)
    if amount <= free:
        return ""
    return f"wants {spoken(name, amount)} of {name}, {spoken(name, free)} of {spoken(name, offered)} free"


def spoken(name: str, amount: int) -> str:
    """Amount as text: bytes in Gi, other resources in units."""
    if name.startswith(_BYTES):
        return f"{amount / MILLI / 2**30:.4g}Gi"
    return f"{amount / MILLI:.10g}"
