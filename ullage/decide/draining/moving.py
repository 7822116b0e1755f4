"""Pods taken from their nodes and put on others in the shared picture, and all of it taken back at the end.

Pods that mean nothing to anybody (see `loners`) are counted on rows by number; all others are placed as ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from ullage.decide.placement.engine import Placement, hold
from ullage.model.draining import DRAINING_TAINT
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node, Taint
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.state.snapshot import ClusterSnapshot, Trial

_GHOST = Taint(DRAINING_TAINT, "", "NoSchedule")


class Moving:
    """Changes to one picture, newest last."""

    def __init__(self, placements: ClusterSnapshot, *, ghosts: bool) -> None:
        """`ghosts`: whether any rule looks at taints of nodes that are being emptied."""
        self._placements = placements
        self._ghosts = ghosts
        self._log: list[tuple[int, Shape, int] | Node] = []

    @contextmanager
    def attempt(self) -> Iterator[Trial]:
        """Moves inside the block are undone at its end, unless the trial is kept. Trials nest."""
        mark = len(self._log)
        with self._placements.what_if() as trial:
            try:
                yield trial
            finally:
                if not trial.kept:
                    self._undo(mark)

    def count(self, row: int, shape: Shape, pods: int) -> None:
        """So many loners of this shape come to a row, or leave it where it is below zero."""
        self._log.append((row, shape, pods))
        self._shift(row, shape, pods)

    def take_out(self, key: ObjectKey) -> None:
        self._placements.remove(key)

    def put(self, pod: Pod, seat: Placement) -> None:
        hold(self._placements, pod, seat)

    def make_ghost(self, name: str) -> None:
        """The node stays where it is, and new pods stay away from it, as they will while it is drained."""
        node = self._placements.state.nodes[name]
        if self._ghosts and not any(taint.key == DRAINING_TAINT for taint in node.taints):
            self._log.append(node)
            self._placements.columns.renew(replace(node, taints=(*node.taints, _GHOST)))

    def _shift(self, row: int, shape: Shape, pods: int) -> None:
        columns = self._placements.columns
        columns.count(row, shape, pods)
        columns.touch(row)

    def _undo(self, mark: int) -> None:
        while len(self._log) > mark:
            done = self._log.pop()
            if isinstance(done, Node):
                self._placements.columns.renew(done)
            else:
                row, shape, pods = done
                self._shift(row, shape, -pods)
