"""VM side of the cluster snapshot: the ledger, fed with what the snapshot places, and its room by row for filters.

Inactive, and free of cost, until VirtualMachines are synced. Sums are in `vm_ledger`, judgement is in `decide.vms`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.resources import MILLI
from ullage.model.shape import Shape
from ullage.model.units import Instant
from ullage.model.vm import NOTHING, LedgerRow, OrdinaryPod, Vm, VmAmounts, VmMigration, VmPod
from ullage.model.vm_config import DEFAULT_VM_CONFIG, ConfigRefusal, VmConfig, VmNodesDocument, unchangeable
from ullage.model.vm_scoring import VmScoring
from ullage.state.forking import weakly
from ullage.state.node_columns import NodeColumns
from ullage.state.vm_ledger import VmLedger

Ints = npt.NDArray[np.int64]
CPU, MEMORY = 0, 1
UNLIMITED = 2**62
"""Room of a node that is none of the VM nodes: other rules limit it."""


def ledger_amounts(requests: Iterable[tuple[str, int]]) -> VmAmounts:
    """Requests of a pod in the ledger's units."""
    asked = dict(requests)
    return VmAmounts(asked.get("cpu", 0), -(-asked.get("memory", 0) // MILLI))


def vm_pod_of(pod: Pod) -> VmPod | None:
    """The pod as the ledger counts it, if it runs a VM."""
    marks = pod.vm
    if marks is None:
        return None
    return VmPod(
        key=pod.key,
        uid=pod.uid,
        node=pod.node,
        vm=marks.name,
        created=Instant(pod.created),
        requests=ledger_amounts(pod.shape.requests),
        approved=marks.approved,
        requested=marks.requested,
        unit=marks.unit,
        incoming=marks.incoming,
        resource_version=pod.resource_version,
    )


@dataclass(frozen=True, slots=True)
class LedgerColumns:
    """One resource of all nodes, by row."""

    total: Ints
    reservable: Ints
    reserved: Ints
    watermark: Ints

    def write(self, row: int, one: LedgerRow | None) -> None:
        self.total[row] = 0 if one is None else one.total
        self.reservable[row] = 0 if one is None else one.reservable
        self.reserved[row] = 0 if one is None else one.reserved
        self.watermark[row] = 0 if one is None else one.watermark


def _ledger_columns(capacity: int) -> LedgerColumns:
    return LedgerColumns(*(np.zeros(capacity, np.int64) for _ in range(4)))


class VmRoom:
    """Ledger of one snapshot, and its room by row."""

    def __init__(self, columns: NodeColumns, changed: Callable[[], None] = lambda: None) -> None:
        """`changed`: called when a number of the ledger may be another one."""
        self._columns = columns
        self._listener = changed
        self.version = 0
        """Grows when a number of the ledger may be another one."""
        self.active = False
        """VirtualMachines are known, so that VM pods and the nodes they are on are held to the ledger."""
        self.ledger = VmLedger(DEFAULT_VM_CONFIG, on_change=self._changed)
        self.refusal: ConfigRefusal | None = None
        """Reason that the node configuration last observed is not in force."""
        self._labels: dict[str, dict[str, str]] = {}
        self._stale: set[int] = set()
        self._free: Ints = np.zeros((2, 0), np.int64)
        self._below: Ints = np.zeros((2, 0), np.int64)
        self._ordinary: Ints = np.zeros((2, 0), np.int64)
        self._named: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._ledgers = (_ledger_columns(0), _ledger_columns(0))
        self.scoring = VmScoring()

    def fork_for(self, columns: NodeColumns) -> "VmRoom":
        """Return a copy for the forked columns of nodes. Nobody listens to it."""
        twin = VmRoom(columns)
        twin.active, twin.refusal, twin._labels = self.active, self.refusal, self._labels.copy()
        twin.scoring = self.scoring
        twin.ledger = self.ledger.fork_with(weakly(twin._changed))
        return twin

    # Facts.

    def activate(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        """Count from now on, beginning with what is there."""
        if self.active:
            return
        self.active = True
        for node in nodes:
            self.put_node(node)
        for pod in pods:
            self.set(pod)

    def configure(self, document: VmNodesDocument) -> None:
        """Take over what the ConfigMap says. What is wrong, or cannot change at runtime, is refused.

        One that says nothing was deleted: what is in force stays, and nothing is wrong any more.
        """
        config, self.refusal = document.config, document.refusal
        if config is not None and self.active:
            self.refusal = unchangeable(self.ledger.config, config)
        if config is not None and self.refusal is None:
            self.ledger.configure(config)
        self._note()

    @property
    def config(self) -> VmConfig:
        """Configuration in force."""
        return self.ledger.config

    def put_node(self, node: Node) -> None:
        if self.active:
            self._labels[node.name] = node.labels
            self.ledger.put_node(node.name, _allocatable(node))

    def drop_node(self, name: str) -> None:
        if self.active:
            self._labels.pop(name, None)
            self.ledger.drop_node(name)

    def set(self, pod: Pod) -> None:
        """A pod holds room on its node, observed or assumed."""
        if not self.active:
            return
        guest = vm_pod_of(pod)
        if guest is not None:
            self.ledger.put_pod(guest)
        else:
            amounts = ledger_amounts(pod.shape.requests)
            self.ledger.put_ordinary(OrdinaryPod(key=pod.key, node=pod.node, amounts=amounts))

    def unset(self, pod: Pod) -> None:
        """A pod holds no room, perhaps only for the time of a trial."""
        if not self.active:
            return
        if pod.vm is not None:
            self.ledger.lift_pod(pod.key)
        else:
            self.ledger.drop_ordinary(pod.key)

    def add_bulk(self, node: str, shape: Shape, pods: int) -> None:
        """Pods of a shape are counted on a node without a name; below zero they leave."""
        if not self.active:
            return
        if shape.vm is not None:
            self.ledger.add_bulk(node, vms=shape.vm.times(pods))
        else:
            self.ledger.add_bulk(node, ordinary=ledger_amounts(shape.requests).times(pods))

    def gone(self, pod: Pod) -> None:
        """A pod was observed to be over or deleted."""
        if pod.vm is not None:
            self.ledger.forget_pod(pod.key, pod.uid)

    def apply(self, old: object | None, new: object | None) -> None:
        """A VirtualMachine, a migration or the node configuration came, changed or went. Other facts are ignored."""
        ledger = self.ledger
        match new if new is not None else old:
            case Vm() as vm:
                ledger.put_vm(vm) if new is not None else ledger.drop_vm(vm.key)
            case VmMigration() as migration:
                ledger.put_migration(migration) if new is not None else ledger.drop_migration(migration.key)
            case VmNodesDocument() as document:
                self.configure(document if new is not None else VmNodesDocument(key=document.key))

    # Reading.

    def is_vm_node(self, node: str) -> bool:
        """True if ordinary pods there are held to the ledger: it runs a VM, or the configuration names it."""
        return self.active and (self.ledger.has_vms(node) or self.is_named(node))

    def is_named(self, node: str) -> bool:
        """True if the configuration names the node, by an override or by its labels."""
        return self.ledger.config.names(node, self._labels.get(node, {}))

    def free(self) -> Ints:
        """Room for VMs by resource and row."""
        self._refresh()
        return self._free

    def below_watermark(self) -> Ints:
        """Room for VMs that are moved, by resource and row."""
        self._refresh()
        return self._below

    def ordinary_free(self) -> Ints:
        """Requests of ordinary pods that still fit, by resource and row; UNLIMITED on other than VM nodes."""
        self._refresh()
        return self._ordinary

    def named(self) -> npt.NDArray[np.bool_]:
        """Rows of nodes that the configuration names."""
        self._refresh()
        return self._named

    def ledger_columns(self) -> tuple[LedgerColumns, LedgerColumns]:
        """CPU and memory of all nodes, for scores."""
        self._refresh()
        return self._ledgers

    def ordinary_left(self, node: str) -> VmAmounts:
        """Requests of ordinary pods that still fit on a VM node. All of them are rounded up together."""
        ledger, slot = self.ledger, self.ledger.config.slot
        present = ledger.ordinary_on(node)
        limit = ledger.ledger(node).free.plus(ledger.rounded(node, present))
        margin = ledger.margin(node)
        return VmAmounts(
            limit.cpu // slot.cpu * slot.cpu + margin.cpu - present.cpu,
            limit.memory // slot.memory * slot.memory + margin.memory - present.memory,
        )

    def _note(self) -> None:
        self.version += 1
        self._listener()

    def _changed(self, node: str) -> None:
        self._note()
        row = self._columns.rows.get(node)
        if row is not None:
            self._stale.add(row)
            self._columns.touch(row)

    def _refresh(self) -> None:
        columns = self._columns
        if self._free.shape[1] != columns.capacity:
            self._free = np.zeros((2, columns.capacity), np.int64)
            self._below = np.zeros((2, columns.capacity), np.int64)
            self._ordinary = np.full((2, columns.capacity), UNLIMITED, np.int64)
            self._named = np.zeros(columns.capacity, np.bool_)
            self._ledgers = (_ledger_columns(columns.capacity), _ledger_columns(columns.capacity))
            self._stale = set(columns.rows.values()) if self.active else set()
        for row in self._stale:
            self._describe(row, columns.names[row])
        self._stale.clear()

    def _describe(self, row: int, name: str) -> None:
        known = self.ledger.ledger(name) if self.ledger.knows(name) else None
        cpu, memory = self._ledgers
        cpu.write(row, None if known is None else known.cpu)
        memory.write(row, None if known is None else known.memory)
        free = NOTHING if known is None else known.free
        self._free[:, row] = (free.cpu, free.memory)
        below = NOTHING if known is None else known.below_watermark
        self._below[:, row] = (below.cpu, below.memory)
        self._named[row] = self.is_named(name) if name else False
        left = self.ordinary_left(name) if self.is_vm_node(name) else VmAmounts(UNLIMITED, UNLIMITED)
        self._ordinary[:, row] = (left.cpu, left.memory)


def _allocatable(node: Node) -> VmAmounts:
    return VmAmounts(node.allocatable.get("cpu", 0), node.allocatable.get("memory", 0) // MILLI)
