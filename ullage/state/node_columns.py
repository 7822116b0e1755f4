"""Nodes as rows of NumPy columns, changed in place: allocatable, used, and what keeps pods off.

A row belongs to a node until the node goes; then it is given to the next one. Rows have no order: `by_name` has. Each
change is stamped. The snapshot tells the columns what pods hold; the columns do not know which pod holds what.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ullage.model.node import Node, Taint
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.resources import GPU, MILLI
from ullage.model.shape import Shape
from ullage.state.change_log import ChangeLog
from ullage.state.code_table import CodeTable
from ullage.state.device_columns import DeviceColumns
from ullage.state.forking import Forkable

UNREADY_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})

MOST_COUNTED = 2**60
"""Largest amount or sum the columns show; larger ones are all alike to readers. Two of them still fit in 64 bits."""

_FIRST_CAPACITY = 64
_MOST_PODS = 2**31 - 1

PODS = "pods"
"""Slots for pods: a resource of nodes with a column of its own."""

ALWAYS_COUNTED = ("cpu", "memory", GPU)
"""Resources that have an index from the start."""

UNOFFERED = 0
"""Index of every resource that no node ever offered. There is none of it, and its use is not counted: pods may name
any resource, and made-up names must not cost a row each."""

Ints = npt.NDArray[np.int64]


class NodeCondition(NamedTuple):
    """All that keeps pods off a node, whatever its name, labels and size. Thousands of nodes share a few conditions."""

    unschedulable: bool
    ready: bool
    starting: bool
    """Not ready, and never was."""
    awaits_gpus: bool
    """See `awaits_gpus`."""
    taints: tuple[Taint, ...]


def awaits_gpus(node: Node) -> bool:
    """True if the node belongs to a pool of GPU nodes, and its GPUs have not appeared yet."""
    return PROVISIONER_LABEL in node.labels and not node.allocatable.get(GPU)


def condition_of(node: Node) -> NodeCondition:
    return NodeCondition(node.unschedulable, node.ready, node.starting, awaits_gpus(node), node.taints)


class NodeColumns(Forkable):
    """One row a node. Read the arrays up to `size`; they are replaced when they grow, so never keep one."""

    alive: npt.NDArray[np.bool_]
    """True where the row belongs to a node."""
    conditions: npt.NDArray[np.int32]
    """A number for each NodeCondition; `known_conditions` knows them."""
    pods: npt.NDArray[np.int32]
    most_pods: npt.NDArray[np.int32]
    scored_cpu: Ints
    scored_memory: Ints
    """Used, as scoring counts it."""

    def __init__(self) -> None:
        self.size = 0
        self.capacity = 0
        self.rows: dict[str, int] = {}
        self.names: list[str] = []
        self.resources: dict[str, int] = {}
        """Index of each resource that some node offers or offered."""
        self.allocatable: Ints = np.zeros((1, 0), np.int64)
        self.used: Ints = np.zeros((1, 0), np.int64)
        self.free: Ints = np.zeros((1, 0), np.int64)
        """Allocatable minus used. All three: thousandths by resource (first axis) and row."""
        self._beyond: dict[tuple[str, int], int] = {}
        """Sums larger than the columns show, by what is summed and row, so that subtracting stays exact."""
        self.known_conditions: CodeTable[NodeCondition] = CodeTable()
        self.gpus = DeviceColumns()
        self.changed = ChangeLog()
        """Anything about a row."""
        self.renewed = ChangeLog()
        """Changes of a row's node itself: labels, taints, size. Pods coming and going are not in it."""
        self.roster = 0
        """Grows when a node comes or goes: `by_name` is another then."""
        self._free: list[int] = []
        self._by_name: npt.NDArray[np.intp] | None = None
        self._grow(_FIRST_CAPACITY)
        self.offer(ALWAYS_COUNTED)

    @property
    def by_name(self) -> npt.NDArray[np.intp]:
        """Rows of all nodes in the order of their names: the order that breaks ties."""
        if self._by_name is None:
            self._by_name = np.array([self.rows[name] for name in sorted(self.rows)], np.intp)
        return self._by_name

    def resource(self, name: str) -> int:
        """The index of a resource."""
        return self.resources.get(name, UNOFFERED)

    def offer(self, names: Iterable[str]) -> list[str]:
        """Give each of these an index. Returns those that had none: their use has not been counted so far."""
        new = [name for name in names if name not in self.resources]
        for name in new:
            self.resources[name] = len(self.resources) + 1
        if new:
            blank = np.zeros((len(new), self.capacity), np.int64)
            self.allocatable, self.used, self.free = (
                np.vstack((known, blank)) for known in (self.allocatable, self.used, self.free)
            )
        return new

    def add(self, node: Node) -> int:
        """A row for a new node."""
        if not self._free and self.size == self.capacity:
            self._grow(2 * self.capacity)
        if self._free:
            row = self._free.pop()
            self.names[row] = node.name
        else:
            row, self.size = self.size, self.size + 1
            self.names.append(node.name)
        self.rows[node.name] = row
        self.alive[row] = True
        self._by_name, self.roster = None, self.roster + 1
        self.conditions[row] = self.known_conditions.take(condition_of(node))
        self._describe(row, node)
        return row

    def renew(self, node: Node) -> int:
        """Renew the facts of a node that has a row."""
        row = self.rows[node.name]
        before = self.conditions.item(row)
        self.conditions[row] = self.known_conditions.take(condition_of(node))
        self.known_conditions.release(before)
        self._describe(row, node)
        return row

    def drop(self, name: str) -> int:
        """Free the row of a node that is gone. All that was held on it must have been given back before."""
        row = self.rows.pop(name)
        self.names[row] = ""
        self.alive[row] = False
        self.known_conditions.release(self.conditions.item(row))
        self.conditions[row] = 0
        self.most_pods[row] = 0
        self.allocatable[:, row] = 0
        self.free[:, row] = -self.used[:, row]
        self.gpus.clear(row)
        self._free.append(row)
        self._by_name, self.roster = None, self.roster + 1
        self.touch_node(row)
        return row

    def touch(self, row: int) -> None:
        self.changed.touch(row)

    def touch_node(self, row: int) -> None:
        self.renewed.touch(row)
        self.changed.touch(row)

    def count(self, row: int, shape: Shape, sign: int) -> None:
        """A pod of this shape comes (+1) or goes (-1)."""
        self.use(row, shape.requests, sign)
        self.pods[row] += sign
        cpu = self.scored_cpu.item(row) + sign * shape.scored_cpu
        memory = self.scored_memory.item(row) + sign * shape.scored_memory
        if cpu > MOST_COUNTED or memory > MOST_COUNTED or self._beyond:
            cpu = self._sum("scored cpu", row, self.scored_cpu.item(row), sign * shape.scored_cpu)
            memory = self._sum("scored memory", row, self.scored_memory.item(row), sign * shape.scored_memory)
        self.scored_cpu[row], self.scored_memory[row] = cpu, memory

    def use(self, row: int, requests: Iterable[tuple[str, int]], sign: int) -> None:
        """Add these amounts to a row's use (+1), or take them away (-1)."""
        used, resources = self.used, self.resources
        for name, amount in requests:
            index = resources.get(name)
            if index is not None:
                total = used.item(index, row) + sign * amount
                if total > MOST_COUNTED or self._beyond:
                    total = self._sum(name, row, used.item(index, row), sign * amount)
                used[index, row] = total
                self.free[index, row] = self.allocatable.item(index, row) - total

    def indexed(self, requests: Iterable[tuple[str, int]]) -> list[tuple[int, int]]:
        """Amounts by resource index, as the columns count them: one for each request."""
        return [(self.resource(name), min(amount, MOST_COUNTED)) for name, amount in requests]

    def needs(self, requests: Iterable[tuple[str, int]]) -> list[tuple[int, int]]:
        """As `indexed`, for checks whether there is enough: all resources that no node offers become one entry."""
        most: dict[int, int] = {}
        for index, amount in self.indexed(requests):
            most[index] = max(amount, most.get(index, 0))
        return list(most.items())

    def _sum(self, what: str, row: int, shown: int, change: int) -> int:
        """Value a column shows after a change, at most MOST_COUNTED. Larger sums are kept in `_beyond`: no overflow."""
        if self._beyond:
            shown = self._beyond.pop((what, row), shown)
        total = shown + change
        if total <= MOST_COUNTED:
            return total
        self._beyond[what, row] = total
        return MOST_COUNTED

    def _describe(self, row: int, node: Node) -> None:
        offered = {name: amount for name, amount in node.allocatable.items() if name != PODS}
        self.offer(offered)
        self.allocatable[:, row] = 0
        for index, amount in self.indexed(offered.items()):
            self.allocatable[index, row] = amount
        self.free[:, row] = self.allocatable[:, row] - self.used[:, row]
        self.most_pods[row] = min(node.allocatable.get(PODS, 0) // MILLI, _MOST_PODS)
        self.touch_node(row)

    def _grow(self, capacity: int) -> None:
        before = {name: getattr(self, name) for name in _BY_ROW if self.capacity}
        for name, dtype in _BY_ROW.items():
            setattr(self, name, np.zeros(capacity, dtype))
        for name, array in before.items():
            getattr(self, name)[: self.capacity] = array
        more = ((0, 0), (0, capacity - self.capacity))
        self.allocatable, self.used, self.free = (np.pad(one, more) for one in (self.allocatable, self.used, self.free))
        self.gpus.grow(capacity)
        self.capacity = capacity


_BY_ROW: dict[str, type[np.generic]] = {
    "alive": np.bool_,
    "conditions": np.int32,
    "pods": np.int32,
    "most_pods": np.int32,
    "scored_cpu": np.int64,
    "scored_memory": np.int64,
}
