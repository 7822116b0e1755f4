"""Undo journal of a snapshot: one entry per change made inside a what-if, newest last.

An entry is the value from before the change. The snapshot writes it back; nothing is undone here.
"""

from collections.abc import Callable
from typing import NamedTuple

from ullage.model.device import Inventory
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.state.storage import AssumedVolume


class PodBefore(NamedTuple):
    """Pod that held room under this key, with its assumed volumes; None if none did."""

    key: ObjectKey
    pod: Pod | None
    volumes: tuple[AssumedVolume, ...]


class BulkAdded(NamedTuple):
    """Pods counted on a row without a name each; a negative number was taken off."""

    row: int
    shape: Shape
    pods: int


class NodeBefore(NamedTuple):
    """Facts of a node; None where there was no node, or no inventory."""

    name: str
    node: Node | None
    inventory: Inventory | None


Entry = PodBefore | BulkAdded | NodeBefore


class Trial:
    """Changes made inside one `what_if` block. They are undone at its end unless kept."""

    def __init__(self, journal: list[Entry], undo_to: Callable[[int], None]) -> None:
        self.kept = False
        self._journal = journal
        self._undo_to = undo_to

    def keep(self) -> None:
        self.kept = True

    def mark(self) -> int:
        """Return a point inside this block to roll back to."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo what was changed since the mark. What-ifs opened since then must be closed."""
        self._undo_to(mark)
