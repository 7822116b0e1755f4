"""KubeScores: all scores of kube-scheduler with its weights."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ullage.decide.placement.score.kube.nodes import ImageLocalityScore, preferred, unwelcome
from ullage.decide.placement.score.kube.pods import PreferredAffinityScore, SoftSpreadScore
from ullage.decide.placement.score.kube.resources import ResourceScores
from ullage.decide.placement.score.kube.scale import Mask, Points, share_of_largest
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.state.snapshot import ClusterSnapshot

WEIGHTS: Mapping[str, int] = MappingProxyType(
    {"taints": 3, "nodeAffinity": 2, "spread": 2, "podAffinity": 2, "fullness": 1, "balance": 1, "images": 1}
)


MOST_SHAPES = 1024
"""Shapes cached; beyond this the least recently used one is dropped."""


class ShapeScores:
    """Scores of one shape. Call `refresh` before reading; vectors are read-only."""

    def __init__(
        self, shape: Shape, snapshot: ClusterSnapshot, images: ImageLocalityScore, *, full_is_better: bool
    ) -> None:
        self._shape = shape
        self._snapshot = snapshot
        self._images = images
        self._version = -1
        self.unwelcome: Points | None = None
        self.preferred: Points | None = None
        self.images: Points | None = None
        """Image locality points; None if no row gets any. The others are None likewise."""
        self.images_version = 0
        """Version of `images`: grows when they change."""
        self.room = ResourceScores(shape, snapshot, full_is_better=full_is_better)
        soft = any(not constraint.hard for constraint in shape.spread)
        self.spread = SoftSpreadScore(shape, snapshot) if soft else None

    @property
    def has_preferences(self) -> bool:
        """True if the shape has a taint, node affinity or soft spread score on some row."""
        return self.unwelcome is not None or self.preferred is not None or self.spread is not None

    def refresh(self) -> None:
        """Update scores from node facts. `room` has its own `refresh`."""
        version = self._snapshot.columns.renewed.version
        if self._version == version:
            return
        self.unwelcome = unwelcome(self._shape, self._snapshot)
        self.preferred = preferred(self._shape, self._snapshot)
        images = self._images.of(self._shape)
        if not _says_the_same(images, self.images):
            self.images, self.images_version = images, self.images_version + 1
        self._version = version


class KubeScores:
    """Scores of kube-scheduler for pods on one snapshot, cached per shape."""

    def __init__(self, snapshot: ClusterSnapshot, *, full_is_better: bool = False) -> None:
        """`full_is_better` selects MostAllocated instead of LeastAllocated."""
        self._snapshot = snapshot
        self._full_is_better = full_is_better
        self._images = ImageLocalityScore(snapshot)
        self._preferred = PreferredAffinityScore(snapshot)
        self._known: dict[Shape, ShapeScores] = {}

    def total(self, pod: Pod, fits: Mask) -> Points:
        """Weighted sum of all scores, for the rows that fit."""
        return _sum(self.parts(pod, fits), len(fits))

    def parts(self, pod: Pod, fits: Mask) -> dict[str, Points]:
        """Scores by name in `WEIGHTS`. A score that does not apply to any row is left out."""
        known = self.of(pod.shape)
        known.room.refresh()
        parts = {"fullness": known.room.fullness, "balance": known.room.balance}
        if known.images is not None:
            parts["images"] = known.images
        return parts | self._wished(pod, known, fits)

    def preferred_points(self, pod: Pod, known: ShapeScores, fits: Mask) -> Points | None:
        """Weighted sum of taint, affinity and spread scores, for the rows that fit; None if none applies."""
        if not known.has_preferences and not self._preferred.any_about(pod):
            return None
        return _sum(self._wished(pod, known, fits), len(fits))

    def of(self, shape: Shape) -> ShapeScores:
        """Scores of a shape, up to date with node facts."""
        known = self._known.pop(shape, None)
        if known is None:
            known = ShapeScores(shape, self._snapshot, self._images, full_is_better=self._full_is_better)
            if len(self._known) >= MOST_SHAPES:
                del self._known[next(iter(self._known))]
        self._known[shape] = known  # last in the dict: most recently used
        known.refresh()
        return known

    def _wished(self, pod: Pod, known: ShapeScores, fits: Mask) -> dict[str, Points]:
        """Scores from preferences of the pod, of node taints, and of placed pods, by name in `WEIGHTS`."""
        parts: dict[str, Points] = {}
        if known.unwelcome is not None:
            parts["taints"] = share_of_largest(known.unwelcome, fits, reverse=True)
        if known.preferred is not None:
            parts["nodeAffinity"] = share_of_largest(known.preferred, fits)
        if known.spread is not None:
            parts["spread"] = known.spread.points(fits)
        has_preferences = self._preferred.points(pod, fits)
        return parts if has_preferences is None else parts | {"podAffinity": has_preferences}


def _says_the_same(one: Points | None, other: Points | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _sum(parts: Mapping[str, Points], rows: int) -> Points:
    total = np.zeros(rows, np.int64)
    for name, points in parts.items():
        total += points if WEIGHTS[name] == 1 else WEIGHTS[name] * points
    return total
