"""Filters of the VM ledger: room of VM pods, room that ordinary pods leave to VMs, containers without bounds.

Nodes without VMs are held to none of it, unless the VM configuration names them.
"""

import numpy as np

from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.decide.placement.filters.rule import BoundFilter, FilterRule, Mask, Reads, Rows, cure, says
from ullage.decide.placement.vm_pods import amounts_said
from ullage.model.node import Node
from ullage.model.shape import Shape
from ullage.model.verdict import ClusterEvent, Reason
from ullage.model.vm import VmAmounts
from ullage.state.snapshot import ClusterSnapshot
from ullage.state.vm_room import CPU, MEMORY, ledger_amounts

_ROOM = cure(
    ClusterEvent.NODE_CHANGED,
    ClusterEvent.POD_LEFT,
    ClusterEvent.VM_CHANGED,
    fewer_pods=True,
    another_node=True,
)


class _IfVms(BoundFilter):
    """Filter of ordinary pods, which says nothing as long as VMs are not counted."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._vms = snapshot.vms

    def rejects_among(self, rows: Rows) -> Mask | None:
        return self.rejects(rows) if self._vms.active else None


class _OrdinaryRoom(_IfVms):
    """Room that VMs leave to ordinary pods."""

    def __init__(self, shape: Shape, snapshot: ClusterSnapshot) -> None:
        super().__init__(snapshot)
        self._wanted = ledger_amounts(shape.requests)

    def rejects(self, rows: Rows) -> Mask:
        if not self._vms.active:
            return np.zeros(len(rows), np.bool_)
        left = self._vms.ordinary_free()
        found: Mask = (left[CPU].take(rows) < self._wanted.cpu) | (left[MEMORY].take(rows) < self._wanted.memory)
        return found

    def rejects_row(self, row: int) -> bool:
        if not self._vms.active:
            return False
        left = self._vms.ordinary_free()
        return left.item(CPU, row) < self._wanted.cpu or left.item(MEMORY, row) < self._wanted.memory


class _GuestRoom(BoundFilter):
    """Room for a VM pod, on nodes without another pod of its VM."""

    def __init__(self, shape: Shape, wanted: VmAmounts, snapshot: ClusterSnapshot) -> None:
        self._vms, self._columns = snapshot.vms, snapshot.columns
        self._wanted, self._elsewhere = wanted, shape.vm_elsewhere
        self._room = self._vms.below_watermark if shape.vm_watermark else self._vms.free

    def rejects(self, rows: Rows) -> Mask:
        free = self._room()
        found: Mask = (free[CPU].take(rows) < self._wanted.cpu) | (free[MEMORY].take(rows) < self._wanted.memory)
        homes = [row for node in self._elsewhere if (row := self._columns.rows.get(node)) is not None]
        if homes:
            found |= np.isin(rows, homes)
        return found

    def rejects_row(self, row: int) -> bool:
        if self._columns.names[row] in self._elsewhere:
            return True
        free = self._room()
        return free.item(CPU, row) < self._wanted.cpu or free.item(MEMORY, row) < self._wanted.memory


class _NamedNodes(_IfVms):
    """Nodes that the VM configuration names: every container there says what it needs."""

    def rejects(self, rows: Rows) -> Mask:
        if not self._vms.active:
            return np.zeros(len(rows), np.bool_)
        found: Mask = self._vms.named().take(rows)
        return found

    def rejects_row(self, row: int) -> bool:
        return self._vms.active and bool(self._vms.named().item(row))


def _bind_room(shape: Shape, snapshot: ClusterSnapshot) -> BoundFilter:
    if shape.vm is not None:
        return _GuestRoom(shape, shape.vm, snapshot)
    return _OrdinaryRoom(shape, snapshot)


def _no_room(query: PodQuery, node: Node) -> str | None:
    vms, wanted = query.snapshot.vms, query.shape.vm
    if not vms.active:
        return None
    if wanted is None:
        needed = ledger_amounts(query.shape.requests)
        left = vms.ordinary_left(node.name)
        if not vms.is_vm_node(node.name) or needed.within(left):
            return None
        return f"wants {amounts_said(needed)}, VMs leave {amounts_said(left)}"
    if node.name in query.shape.vm_elsewhere:
        return "the VM runs here: a migration leads to another node"
    ledger = vms.ledger.ledger(node.name)
    if query.shape.vm_watermark:
        room, where = ledger.below_watermark, "below the watermarks"
    else:
        room, where = ledger.free, "free in the VM ledger"
    return None if wanted.within(room) else f"wants {amounts_said(wanted)}, {amounts_said(room)} {where}"


def _unbounded(query: PodQuery, node: Node) -> str | None:
    vms, shape = query.snapshot.vms, query.shape
    if not vms.active or not shape.unbounded or shape.vm is not None or not vms.is_named(node.name):
        return None
    return "a container says neither request nor limit of cpu or of memory, and the node is meant for VMs"


VM_RULES = (
    FilterRule(
        reason=Reason.UNBOUNDED_CONTAINER,
        cure=cure(ClusterEvent.NODE_CHANGED, ClusterEvent.VM_CHANGED),
        words="The VM configuration names the node, and a container of the pod has neither request nor limit.",
        advice=says("requests or limits of cpu and memory for every container of {pod}, or a node without VMs"),
        headline="a container of it has neither request nor limit, and the nodes that could take it run VMs",
        reads=Reads.ROW,
        explain=_unbounded,
        bind=lambda shape, snapshot: _NamedNodes(snapshot) if shape.unbounded and shape.vm is None else None,
    ),
    FilterRule(
        reason=Reason.VM_INSUFFICIENT_ROOM,
        cure=_ROOM,
        words="The VM ledger of the node has no room below total - system, or another pod of the VM is there.",
        advice=says("room in the VM ledger of {node}: {detail}"),
        headline="no node has room for its VM",
        reads=Reads.ROW,
        explain=_no_room,
        bind=_bind_room,
    ),
)
"""Rules in the order they are evaluated."""
