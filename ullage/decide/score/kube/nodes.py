"""Scores that look at the node alone: taints it would rather not be ignored, labels, images it has."""

import numpy as np

from ullage.decide.fit.vectors.masks import any_term
from ullage.decide.score.kube.scale import MOST, Points
from ullage.model.node import Taint
from ullage.model.shape import Shape
from ullage.model.terms import tolerated
from ullage.state.images import ImageTable
from ullage.state.placements import Placements

_MB = 2**20
_SMALL_IMAGE = 23 * _MB
_LARGE_IMAGE = 1000 * _MB


def unwelcome(shape: Shape, placements: Placements) -> Points:
    """How many taints of each row say that pods of this shape had better go elsewhere."""
    columns = placements.columns
    counts = np.zeros(max(len(columns.taint_sets), 1), np.int64)
    for taints, code in columns.taint_sets.items():
        counts[code] = sum(_discourages(taint, shape) for taint in taints)
    found: Points = counts[columns.taints[: columns.size]]
    return found


def _discourages(taint: Taint, shape: Shape) -> bool:
    return taint.effect == "PreferNoSchedule" and not tolerated(taint, shape.tolerations)


def preferred(shape: Shape, placements: Placements) -> Points:
    """The weights of the wishes each row fulfils."""
    wishes = np.zeros(placements.columns.size, np.int64)
    for wish in shape.preferred_nodes:
        wishes[any_term((wish.term,), placements)] += wish.weight
    return wishes


def images_there(shape: Shape, images: ImageTable, placements: Placements) -> Points:
    """Bytes a row need not fetch. Images that few nodes have count for less, or all pods would go to those few."""
    columns = placements.columns
    images.refresh()
    bytes_there = np.zeros(columns.size, np.int64)
    for image in shape.images:
        holders = images.holders(image)
        for row, size in holders.items():
            bytes_there[row] += int(size * (len(holders) / len(columns.rows)))
    large = _LARGE_IMAGE * max(shape.containers, 1)
    points: Points = MOST * (np.clip(bytes_there, _SMALL_IMAGE, large) - _SMALL_IMAGE) // (large - _SMALL_IMAGE)
    return points
