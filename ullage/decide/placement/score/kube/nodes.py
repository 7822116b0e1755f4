"""Scores that look at the node alone: PreferNoSchedule taints, preferred node affinity, image locality."""

import numpy as np

from ullage.decide.placement.filters.masks import any_term
from ullage.decide.placement.score.kube.scale import MOST, Points
from ullage.model.node import Taint
from ullage.model.shape import Shape
from ullage.model.shape_terms import tolerated
from ullage.state.node_images import ImageTable
from ullage.state.snapshot import ClusterSnapshot

_MB = 2**20
_SMALL_IMAGE = 23 * _MB
_LARGE_IMAGE = 1000 * _MB


def unwelcome(shape: Shape, snapshot: ClusterSnapshot) -> Points | None:
    """Number of PreferNoSchedule taints by row that the shape does not tolerate; None if no row has any."""
    columns = snapshot.columns
    counts = np.zeros(max(len(columns.known_conditions), 1), np.int64)
    for condition, code in columns.known_conditions.items():
        counts[code] = sum(_discourages(taint, shape) for taint in condition.taints)
    if not counts.any():
        return None
    found: Points = counts[columns.conditions[: columns.size]]
    return found


def _discourages(taint: Taint, shape: Shape) -> bool:
    return taint.effect == "PreferNoSchedule" and not tolerated(taint, shape.tolerations)


def preferred(shape: Shape, snapshot: ClusterSnapshot) -> Points | None:
    """Sum of weights by row of the preferred node affinity terms that match; None if no term matches any row."""
    if not shape.preferred_nodes:
        return None
    sums = np.zeros(snapshot.columns.size, np.int64)
    for wanted in shape.preferred_nodes:
        sums[any_term((wanted.term,), snapshot)] += wanted.weight
    return sums if sums.any() else None


class ImageLocalityScore:
    """Image locality: bytes a node need not pull. Images on few nodes count less, or all pods would go to those."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._images = ImageTable(snapshot.columns, snapshot.state.nodes)
        self._version = -1
        self._counted: dict[str, Points | None] = {}

    def of(self, shape: Shape) -> Points | None:
        """Points by row for the images of a shape; None if no row has enough of them to count."""
        columns = self._snapshot.columns
        if self._version != columns.renewed.version:
            self._images.refresh()
            self._counted.clear()
            self._version = columns.renewed.version
        there = [found for image in shape.images if (found := self._bytes(image)) is not None]
        if not there:
            return None
        large = _LARGE_IMAGE * max(shape.containers, 1)
        points: Points = MOST * (np.clip(sum(there), _SMALL_IMAGE, large) - _SMALL_IMAGE) // (large - _SMALL_IMAGE)
        return points if points.any() else None

    def _bytes(self, image: str) -> Points | None:
        """Bytes of an image by row, scaled by the part of nodes that have it; None if no node has it."""
        if image not in self._counted:
            holders, columns = self._images.holders(image), self._snapshot.columns
            found: Points | None = None
            if holders:
                found = np.zeros(columns.size, np.int64)
                sizes = np.array(list(holders.values())) * (len(holders) / len(columns.rows))
                found[list(holders)] = sizes.astype(np.int64)
            self._counted[image] = found
        return self._counted[image]
