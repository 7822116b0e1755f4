"""Nodes as rows of NumPy columns, changed in place: what they offer, what is used, what keeps pods off.

A row belongs to a node until the node goes; then it is given to the next one. Rows have no order: `by_name` has. Each
change is stamped. Who holds what is told to the columns, not decided or remembered by them.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ullage.model.node import Node, Taint
from ullage.model.resources import GPU, MILLI
from ullage.model.shape import Shape
from ullage.state.codes import Codes
from ullage.state.gpus import GpuColumns
from ullage.state.stamps import Stamps

UNREADY_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})

_MOST = 2**60
"""Amounts above it are all the same to us: sums of them still fit in 64 bits."""

_FIRST_CAPACITY = 64

ALWAYS_COUNTED = ("cpu", "memory", GPU)
"""Resources that have an index from the start; asking for it never replaces the arrays."""

Ints = npt.NDArray[np.int64]


def unready_without_saying(node: Node) -> bool:
    """Not ready, and not yet tainted for it: kube-scheduler trusts the taint alone and would still place pods here."""
    return not node.ready and not any(taint.key in UNREADY_TAINTS for taint in node.taints)


class Columns:
    """One row a node. Read the arrays up to `size`; they are replaced when they grow, so never keep one."""

    alive: npt.NDArray[np.bool_]
    """Whether the row is a node's."""
    unschedulable: npt.NDArray[np.bool_]
    unready: npt.NDArray[np.bool_]
    """See `unready_without_saying`."""
    taints: npt.NDArray[np.int32]
    """A number for each set of taints; `taint_sets` knows them."""
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
        self.allocatable: Ints = np.zeros((0, 0), np.int64)
        self.used: Ints = np.zeros((0, 0), np.int64)
        """Thousandths by resource (first axis) and row."""
        self.taint_sets: Codes[tuple[Taint, ...]] = Codes()
        self.gpus = GpuColumns()
        self.changed = Stamps()
        """Anything about a row."""
        self.renewed = Stamps()
        """What a row's node is: labels, taints, size. Nothing that pods change."""
        self.roster = 0
        """Grows when a node comes or goes: `by_name` is another then."""
        self._free: list[int] = []
        self._by_name: npt.NDArray[np.intp] | None = None
        self._grow(_FIRST_CAPACITY)
        for name in ALWAYS_COUNTED:
            self.resource(name)

    @property
    def by_name(self) -> npt.NDArray[np.intp]:
        """Rows of all nodes in the order of their names: the order that breaks ties."""
        if self._by_name is None:
            self._by_name = np.array([self.rows[name] for name in sorted(self.rows)], np.intp)
        return self._by_name

    def resource(self, name: str) -> int:
        """The index of a resource, which from now on has one. A new one replaces `allocatable` and `used`."""
        index = self.resources.get(name)
        if index is None:
            index = self.resources[name] = len(self.resources)
            blank = np.zeros((1, self.capacity), np.int64)
            self.allocatable, self.used = np.vstack((self.allocatable, blank)), np.vstack((self.used, blank))
        return index

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
        self.taints[row] = self.taint_sets.take(node.taints)
        self._describe(row, node)
        return row

    def renew(self, node: Node) -> int:
        """The same node with other facts."""
        row = self.rows[node.name]
        before = int(self.taints[row])
        self.taints[row] = self.taint_sets.take(node.taints)
        self.taint_sets.release(before)
        self._describe(row, node)
        return row

    def drop(self, name: str) -> int:
        """The node is gone. Whoever holds something on it has given it back before."""
        row = self.rows.pop(name)
        self.names[row] = ""
        self.alive[row] = False
        self.taint_sets.release(int(self.taints[row]))
        self.taints[row] = 0
        self.unschedulable[row] = self.unready[row] = False
        self.most_pods[row] = 0
        self.allocatable[:, row] = 0
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
        for index, amount in self.indexed(shape.requests):
            self.used[index, row] += sign * amount
        self.pods[row] += sign
        self.scored_cpu[row] += sign * shape.scored_cpu
        self.scored_memory[row] += sign * shape.scored_memory

    def indexed(self, requests: Iterable[tuple[str, int]]) -> list[tuple[int, int]]:
        """Amounts by resource index, as the columns count them."""
        return [(self.resource(name), min(amount, _MOST)) for name, amount in requests]

    def _describe(self, row: int, node: Node) -> None:
        offered = self.indexed((name, amount) for name, amount in node.allocatable.items() if name != "pods")
        self.allocatable[:, row] = 0
        for index, amount in offered:
            self.allocatable[index, row] = amount
        self.most_pods[row] = min(node.allocatable.get("pods", 0) // MILLI, np.iinfo(np.int32).max)
        self.unschedulable[row] = node.unschedulable
        self.unready[row] = unready_without_saying(node)
        self.touch_node(row)

    def _grow(self, capacity: int) -> None:
        before = {name: getattr(self, name) for name in _BY_ROW if self.capacity}
        for name, dtype in _BY_ROW.items():
            setattr(self, name, np.zeros(capacity, dtype))
        for name, array in before.items():
            getattr(self, name)[: self.capacity] = array
        more = ((0, 0), (0, capacity - self.capacity))
        self.allocatable, self.used = np.pad(self.allocatable, more), np.pad(self.used, more)
        self.gpus.grow(capacity)
        self.capacity = capacity


_BY_ROW: dict[str, type[np.generic]] = {
    "alive": np.bool_,
    "unschedulable": np.bool_,
    "unready": np.bool_,
    "taints": np.int32,
    "pods": np.int32,
    "most_pods": np.int32,
    "scored_cpu": np.int64,
    "scored_memory": np.int64,
}
