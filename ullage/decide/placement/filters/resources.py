"""Filters about room on the node: host ports, number of pods, resources."""

from collections.abc import Mapping

import numpy as np

from ullage.decide.placement.filters.codes import Codes
from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.decide.placement.filters.rule import (
    NODE_CHANGES,
    ROOM,
    BoundFilter,
    FilterRule,
    Mask,
    Reads,
    Rows,
    says,
)
from ullage.model.node import Node
from ullage.model.resources import MILLI, total
from ullage.model.shape import Shape
from ullage.model.verdict import CuredBy, Reason
from ullage.state.node_columns import UNOFFERED
from ullage.state.snapshot import ClusterSnapshot

_BYTES = ("memory", "ephemeral-storage", "hugepages-")


class _HostPorts(BoundFilter):
    def __init__(self, shape: Shape, snapshot: ClusterSnapshot) -> None:
        self._wanted, self._ports = shape.host_ports, snapshot.placed.ports

    def rejects(self, rows: Rows) -> Mask:
        found: Mask = np.zeros(len(rows), np.bool_)
        for port in self._wanted:
            found |= np.isin(rows, list(self._ports.taken(port)))
        return found

    def rejects_row(self, row: int) -> bool:
        return any(self._ports.is_taken(port, row) for port in self._wanted)


class _PodSlots(BoundFilter):
    def __init__(self, _: Shape, snapshot: ClusterSnapshot) -> None:
        self._columns = snapshot.columns

    def rejects(self, rows: Rows) -> Mask:
        found: Mask = self._columns.pods.take(rows) >= self._columns.most_pods.take(rows)
        return found

    def rejects_row(self, row: int) -> bool:
        return self._columns.pods.item(row) >= self._columns.most_pods.item(row)


class _Requests(BoundFilter):
    """Requests of a shape by resource index. A resource that no node offers has no index until one does."""

    def __init__(self, shape: Shape, snapshot: ClusterSnapshot) -> None:
        self._columns = snapshot.columns
        self._needs = self._columns.needs(shape.requests)
        self._offered = len(self._columns.resources)
        self.expires = any(index == UNOFFERED for index, _ in self._needs)

    def current(self) -> bool:
        return self._offered == len(self._columns.resources)


class _NodeSize(_Requests):
    def rejects(self, rows: Rows) -> Mask:
        found: Mask = np.zeros(len(rows), np.bool_)
        for index, amount in self._needs:
            found |= self._columns.allocatable[index].take(rows) < amount
        return found

    def mark(self, codes: Codes, code: int) -> None:
        for index, amount in self._needs:
            codes[self._columns.allocatable[index, : len(codes)] < amount] = code

    def rejects_row(self, row: int) -> bool:
        allocatable = self._columns.allocatable
        return any(allocatable.item(index, row) < amount for index, amount in self._needs)


class _FreeResources(_Requests):
    def rejects(self, rows: Rows) -> Mask:
        free = self._columns.free
        (index, amount), *others = self._needs
        found: Mask = free[index].take(rows) < amount
        for index, amount in others:
            found |= free[index].take(rows) < amount
        return found

    def rejects_row(self, row: int) -> bool:
        free = self._columns.free
        for index, amount in self._needs:  # noqa: SIM110 - runs in every decision, and a generator costs half as much again
            if free.item(index, row) < amount:
                return True
        return False


def _port_taken(query: PodQuery, node: Node) -> str | None:
    if not query.shape.host_ports:
        return None
    for pod in query.pods_on(node):
        for taken in pod.shape.host_ports:
            for wanted in query.shape.host_ports:
                if wanted.conflicts(taken):
                    return f"{wanted} is taken by {pod.key}"
    return None


def _too_small(query: PodQuery, node: Node) -> str | None:
    for name, amount in query.shape.requests:
        offered = node.allocatable.get(name, 0)
        if amount > offered:
            return f"wants {spoken(name, amount)} of {name}, the node has {spoken(name, offered)}"
    return None


def _full(query: PodQuery, node: Node) -> str | None:
    slots, pods = node.allocatable.get("pods", 0) // MILLI, len(query.pods_on(node))
    return f"{pods} pods, {slots} allowed" if pods + 1 > slots else None


def _short(query: PodQuery, node: Node) -> str | None:
    if not query.shape.requests:
        return None
    used = total(dict(pod.shape.requests) for pod in query.pods_on(node))
    short = [_shortage(name, amount, node, used) for name, amount in query.shape.requests]
    return "; ".join(each for each in short if each) or None


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


RESOURCE_RULES = (
    FilterRule(
        reason=Reason.HOST_PORT_TAKEN,
        cure=ROOM,
        words="A pod on the node has a host port that the pod asks for.",
        advice=says("another host port: {detail}"),
        headline="its host port is taken on the nodes that could take it",
        reads=Reads.ROW,
        explain=_port_taken,
        bind=lambda shape, snapshot: _HostPorts(shape, snapshot) if shape.host_ports else None,
    ),
    FilterRule(
        reason=Reason.NODE_TOO_SMALL,
        cure=NODE_CHANGES,
        words="The node has less of a resource than the pod requests, even when empty.",
        advice=lambda adviser, pod, _: adviser.larger_node(pod),
        headline="no node is large enough, even when empty",
        nearness=CuredBy.OTHER_NODES,
        reads=Reads.NODE,
        explain=_too_small,
        bind=lambda shape, snapshot: _NodeSize(shape, snapshot) if shape.requests else None,
    ),
    FilterRule(
        reason=Reason.TOO_MANY_PODS,
        cure=ROOM,
        words="The node has as many pods as its kubelet allows.",
        advice=says("room for one more pod on {node}: {detail}"),
        headline="the nodes that could take it have as many pods as they may",
        reads=Reads.ROW,
        explain=_full,
        bind=_PodSlots,
    ),
    FilterRule(
        reason=Reason.INSUFFICIENT_RESOURCES,
        cure=ROOM,
        words="Less of a resource is free on the node than the pod requests.",
        advice=lambda adviser, pod, _: adviser.shortage(pod),
        headline="too little is free on the nodes that could take it",
        reads=Reads.ROW,
        explain=_short,
        bind=lambda shape, snapshot: _FreeResources(shape, snapshot) if shape.requests else None,
    ),
)
"""Rules in the order they are evaluated."""
