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
        self._images = ImagePoints(placements)
        self._wishes = Wishes(placements)
        self._known: dict[Shape, _Remembered] = {}

    def total(self, pod: Pod, fits: Mask) -> Points:
        """The weighted sum over all scores, for the rows that fit."""
        return _sum(self.parts(pod, fits), len(fits))

    def parts(self, pod: Pod, fits: Mask) -> dict[str, Points]:
        """Each score by its name in `WEIGHTS`. One that tells no two nodes apart is left out."""
        room = self.room(pod.shape)
        parts = {"fullness": room.fullness, "balance": room.balance}
        images = self.images(pod.shape)
        if images is not None:
            parts["images"] = images
        return parts | self._wished(pod, fits)

    def room(self, shape: Shape) -> RoomPoints:
        """Scores that look at a row alone, as of now."""
        room = self._remember(shape).room
        room.refresh()
        return room

    def images(self, shape: Shape) -> Points | None:
        """The score for images. The same object until a node changes; None where it tells no two nodes apart."""
        return self._remember(shape).images

    def may_wish(self, pod: Pod) -> bool:
        """Whether there is any wish to compare nodes by."""
        known = self._remember(pod.shape)
        own = known.unwelcome is not None or known.preferred is not None or known.spread is not None
        return own or self._wishes.any_about(pod)

    def wishes(self, pod: Pod, fits: Mask) -> Points:
        """The weighted sum over the scores that are wishes, for the rows that fit."""
        return _sum(self._wished(pod, fits), len(fits))

    def _wished(self, pod: Pod, fits: Mask) -> dict[str, Points]:
        """What somebody wishes: the pod, those who look after a node, or pods that are placed already."""
        known = self._remember(pod.shape)
        parts: dict[str, Points] = {}
        if known.unwelcome is not None:
            parts["taints"] = share_of_largest(known.unwelcome, fits, reverse=True)
        if known.preferred is not None:
            parts["nodeAffinity"] = share_of_largest(known.preferred, fits)
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
            known.unwelcome = unwelcome(shape, self._placements)
            known.preferred = preferred(shape, self._placements)
            known.images = self._images.of(shape)
            known.version = version
        return known


def _sum(parts: Mapping[str, Points], rows: int) -> Points:
    total = np.zeros(rows, np.int64)
    for name, points in parts.items():
        total += points if WEIGHTS[name] == 1 else WEIGHTS[name] * points
    return total
