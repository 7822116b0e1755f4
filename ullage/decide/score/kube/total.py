"""All of kube-scheduler's scores with its weights."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ullage.decide.score.kube.nodes import images_there, preferred, unwelcome
from ullage.decide.score.kube.pods import SoftSpread, Wishes
from ullage.decide.score.kube.room import RoomPoints
from ullage.decide.score.kube.scale import Mask, Points, share_of_largest
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.state.images import ImageTable
from ullage.state.placements import Placements

WEIGHTS: Mapping[str, int] = MappingProxyType(
    {"taints": 3, "nodeAffinity": 2, "spread": 2, "podAffinity": 2, "fullness": 1, "balance": 1, "images": 1}
)

MOST_SHAPES = 1024
"""Shapes remembered; when there are more, the one asked for longest ago is forgotten."""


class _Remembered:
    """What is kept for one shape."""

    def __init__(self, shape: Shape, placements: Placements, *, full_is_better: bool) -> None:
        self.version = -1
        self.unwelcome: Points | None = None
        self.preferred: Points | None = None
        self.images: Points | None = None
        self.room = RoomPoints(shape, placements, full_is_better=full_is_better)
        soft = any(not constraint.hard for constraint in shape.spread)
        self.spread = SoftSpread(shape, placements) if soft else None


class KubeScores:
    """Scores for one pod after another."""

    def __init__(self, placements: Placements, *, full_is_better: bool = False) -> None:
        """`full_is_better` asks for MostAllocated in the place of LeastAllocated."""
        self._placements = placements
        self._full_is_better = full_is_better
        self._images = ImageTable(placements.columns, placements.state.nodes)
        self._wishes = Wishes(placements)
        self._known: dict[Shape, _Remembered] = {}

    def total(self, pod: Pod, fits: Mask) -> Points:
        """The weighted sum over all scores, for the rows that fit."""
        total = np.zeros(len(fits), np.int64)
        for name, points in self.parts(pod, fits).items():
            total += points if WEIGHTS[name] == 1 else WEIGHTS[name] * points
        return total

    def parts(self, pod: Pod, fits: Mask) -> dict[str, Points]:
        """Each score by its name in `WEIGHTS`. One that tells no two nodes apart is left out."""
        known = self._remember(pod.shape)
        known.room.refresh()
        parts = {"fullness": known.room.fullness, "balance": known.room.balance}
        if known.unwelcome is not None:
            parts["taints"] = share_of_largest(known.unwelcome, fits, reverse=True)
        if known.preferred is not None:
            parts["nodeAffinity"] = share_of_largest(known.preferred, fits)
        if known.images is not None:
            parts["images"] = known.images
        if known.spread is not None:
            parts["spread"] = known.spread.points(fits)
        wishes = self._wishes.points(pod, fits)
        return parts if wishes is None else parts | {"podAffinity": wishes}

    def _remember(self, shape: Shape) -> _Remembered:
        known = self._known.pop(shape, None)
        if known is None:
            known = _Remembered(shape, self._placements, full_is_better=self._full_is_better)
            if len(self._known) >= MOST_SHAPES:
                del self._known[next(iter(self._known))]
        self._known[shape] = known  # last in the dict: asked for most recently
        version = self._placements.columns.renewed.version
        if known.version != version:
            known.unwelcome = _or_nothing(unwelcome(shape, self._placements))
            known.preferred = _or_nothing(preferred(shape, self._placements))
            known.images = _or_nothing(images_there(shape, self._images, self._placements))
            known.version = version
        return known


def _or_nothing(points: Points) -> Points | None:
    return points if points.any() else None
