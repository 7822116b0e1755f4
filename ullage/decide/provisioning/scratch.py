"""A picture that is written on and wiped clean: nodes that are not there yet, and pods on them.

Rows cannot come and go inside a what-if, so this keeps a log of its own. Whoever borrows a picture has it alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ullage.decide.placement.engine import Placement, hold
from ullage.model.device import Inventory
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.state.cluster import Fact
from ullage.state.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class _Heard:
    undo: FactEvent[Fact]


@dataclass(frozen=True, slots=True)
class _Held:
    pod: ObjectKey


class Scratch:
    """Changes written on a borrowed snapshot, newest last."""

    def __init__(self, placements: ClusterSnapshot) -> None:
        self.placements = placements
        self._log: list[_Heard | _Held] = []

    def mark(self) -> int:
        """A place to come back to."""
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """As it was at that place."""
        while len(self._log) > mark:
            match self._log.pop():
                case _Heard(undo=event):
                    self.placements.apply(event)
                case _Held(pod=key):
                    self.placements.remove(key)

    def hold(self, pod: Pod, seat: Placement) -> None:
        """The pod, which held nothing, has this seat."""
        self._log.append(_Held(pod.key))
        hold(self.placements, pod, seat)

    def noted(self, pod: Pod) -> None:
        """The pod has been given a seat already, by somebody who does not know of this log."""
        self._log.append(_Held(pod.key))

    def put(self, node: Node, inventory: Inventory | None = None) -> None:
        """A node that is not there, or another face of one that is."""
        if inventory is not None:
            self._write(ObjectKey("", inventory.node), self.placements.state.inventories.get(inventory.node), inventory)
        self._write(ObjectKey("", node.name), self.placements.state.nodes.get(node.name), node)

    def _write(self, key: ObjectKey, old: Node | Inventory | None, new: Node | Inventory) -> None:
        happened: FactEvent[Fact] = Added(key, new) if old is None else Updated(key, old, new)
        undone: FactEvent[Fact] = Deleted(key, new) if old is None else Updated(key, new, old)
        self.placements.apply(happened)
        self._log.append(_Heard(undone))


@contextmanager
def borrowed(placements: ClusterSnapshot) -> Iterator[Scratch]:
    """The picture, to write on until the end of the block; then it is as it was."""
    scratch = Scratch(placements)
    try:
        yield scratch
    finally:
        scratch.rollback(0)
