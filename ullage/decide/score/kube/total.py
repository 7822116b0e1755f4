"""All of kube-scheduler's scores with its weights."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ullage.decide.score.kube.nodes import ImagePoints, preferred, unwelcome
from ullage.decide.score.kube.pods import SoftSpread, Wishes
from ullage.decide.score.kube.room import RoomPoints
from ullage.decide.score.kube.scale import Mask, Points, share_of_largest
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.state.placements import Placements

WEIGHTS: Mapping[str, int] = MappingProxyType(
    {"taints": 3, "nodeAffinity": 2, "spread": 2, "podAffinity": 2, "fullness": 1, "balance": 1, "images": 1}
)


MOST_SHAPES = 1024
"""Shapes remembered; when there are more, the one asked for longest ago is forgotten."""


class ShapeScores:
    """What is kept for one shape. `refresh` before reading; vectors are not to be written to."""

    def __init__(self, shape: Shape, placements: Placements, images: ImagePoints, *, full_is_better: bool) -> None:
        self._shape = shape
        self._placements = placements
        self._images = images
        self._version = -1
        self.unwelcome: Points | None = None
        self.preferred: Points | None = None
        self.images: Points | None = None
        """None where they tell no two nodes apart, like the others."""
        self.images_version = 0
        """Grows when `images` says something else."""
        self.room = RoomPoints(shape, placements, full_is_better=full_is_better)
        soft = any(not constraint.hard for constraint in shape.spread)
        self.spread = SoftSpread(shape, placements) if soft else None

    @property
    def wishes(self) -> bool:
        """Whether nodes differ in anything the shape wishes for, or those who look after them."""
        return self.unwelcome is not None or self.preferred is not None or self.spread is not None

    def refresh(self) -> None:
        """Look again at what nodes are. `room` is refreshed by itself."""
        version = self._placements.columns.renewed.version
        if self._version == version:
            return
        self.unwelcome = unwelcome(self._shape, self._placements)
        self.preferred = preferred(self._shape, self._placements)
        images = self._images.of(self._shape)
        if not _says_the_same(images, self.images):
            self.images, self.images_version = images, self.images_version + 1
        self._version = version


class KubeScores:
    """Scores for one pod after another."""

    def __init__(self, placements: Placements, *, full_is_better: bool = False) -> None:
        """`full_is_better` asks for MostAllocated in the place of LeastAllocated."""
        self._placements = placements
        self._full_is_better = full_is_better
        self._images = ImagePoints(placements)
        self._wishes = Wishes(placements)
        self._known: dict[Shape, ShapeScores] = {}

    def total(self, pod: Pod, fits: Mask) -> Points:
        """The weighted sum over all scores, for the rows that fit."""
        return _sum(self.parts(pod, fits), len(fits))

    def parts(self, pod: Pod, fits: Mask) -> dict[str, Points]:
        """Each score by its name in `WEIGHTS`. One that tells no two nodes apart is left out."""
        known = self.of(pod.shape)
        known.room.refresh()
        parts = {"fullness": known.room.fullness, "balance": known.room.balance}
        if known.images is not None:
            parts["images"] = known.images
        return parts | self._wished(pod, known, fits)

    def wishes(self, pod: Pod, known: ShapeScores, fits: Mask) -> Points | None:
        """The weighted sum over scores that are wishes, for the rows that fit; None where nobody wishes anything."""
        if not known.wishes and not self._wishes.any_about(pod):
            return None
        return _sum(self._wished(pod, known, fits), len(fits))

    def of(self, shape: Shape) -> ShapeScores:
        """What is kept for a shape, as nodes are now."""
        known = self._known.pop(shape, None)
        if known is None:
            known = ShapeScores(shape, self._placements, self._images, full_is_better=self._full_is_better)
            if len(self._known) >= MOST_SHAPES:
                del self._known[next(iter(self._known))]
        self._known[shape] = known  # last in the dict: asked for most recently
        known.refresh()
        return known

    def _wished(self, pod: Pod, known: ShapeScores, fits: Mask) -> dict[str, Points]:
        """What somebody wishes: the pod, those who look after a node, or pods that are placed already."""
        parts: dict[str, Points] = {}
        if known.unwelcome is not None:
            parts["taints"] = share_of_largest(known.unwelcome, fits, reverse=True)
        if known.preferred is not None:
            parts["nodeAffinity"] = share_of_largest(known.preferred, fits)
        if known.spread is not None:
            parts["spread"] = known.spread.points(fits)
        wishes = self._wishes.points(pod, fits)
        return parts if wishes is None else parts | {"podAffinity": wishes}


def _says_the_same(one: Points | None, other: Points | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _sum(parts: Mapping[str, Points], rows: int) -> Points:
    total = np.zeros(rows, np.int64)
    for name, points in parts.items():
        total += points if WEIGHTS[name] == 1 else WEIGHTS[name] * points
    return total
