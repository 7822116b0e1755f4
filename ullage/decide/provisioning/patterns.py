"""Patterns: the pods of each shape that share one new node, and the search for the pattern of most value.

Room is a vector of resources. Rules that are no sums (NVLink islands, parts of one GPU) are checked by `fill`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Pattern = tuple[int, ...]
"""Pods on one node, by shape."""

Fill = Callable[[int, Pattern], Pattern]
"""Part of a pattern that fits on one empty node of a type, by the placement rules."""

MOST_STEPS = 4000
"""Upper bound on steps of one search. Past it the best pattern found so far is taken: valid, perhaps not the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """Nodes of one kind that may be opened."""

    cost: float
    limit: int
    """Nodes that may still be opened."""
    room: tuple[int, ...]
    """Room of an empty node, by resource."""
    sizes: tuple[tuple[int, ...] | None, ...]
    """Room one pod takes, by shape, then by resource. None where such a pod never fits."""
    charges: tuple[float, ...] = ()
    """Part of each budget one node takes."""

    def copies(self, shape: int, room: Sequence[int]) -> int:
        """Pods of a shape that fit into this room, by sums alone."""
        sizes = self.sizes[shape]
        if sizes is None:
            return 0
        return min((have // size for size, have in zip(sizes, room, strict=True) if size), default=0)

    def left(self, pattern: Pattern) -> list[int]:
        """Room left beside a pattern."""
        room = list(self.room)
        for shape, count in enumerate(pattern):
            sizes = self.sizes[shape]
            if count and sizes is not None:
                room = [have - count * size for have, size in zip(room, sizes, strict=True)]
        return room

    def share(self, shape: int) -> float:
        """Largest part of any resource of an empty node that one pod takes."""
        sizes = self.sizes[shape]
        if sizes is None:
            return 0.0
        return max((size / have for size, have in zip(sizes, self.room, strict=True) if size), default=0.0)


def best_pattern(node: NodeType, values: Sequence[float], most: Pattern, above: float) -> Pattern | None:
    """Pattern of most value, with at most `most` pods of each shape; None if none is worth more than `above`."""
    useful = [shape for shape, value in enumerate(values) if value > 0 and most[shape] and node.share(shape) > 0]
    useful.sort(key=lambda shape: (-values[shape] / node.share(shape), shape))
    search = _Search(node, [values[shape] for shape in useful], useful, [most[shape] for shape in useful], above)
    search.descend(0, list(node.room), 0.0)
    if search.best is None:
        return None
    counts = dict(zip(useful, search.best, strict=True))
    return tuple(counts.get(shape, 0) for shape in range(len(values)))


class _Search:
    """Depth-first search with a bound: the value still possible if only one resource counted."""

    def __init__(self, node: NodeType, values: list[float], shapes: list[int], most: list[int], above: float) -> None:
        self._node, self._values, self._shapes, self._most = node, values, shapes, most
        self._sizes = [node.sizes[shape] or () for shape in shapes]
        self._dense = self._densities()
        self._taken = [0] * len(shapes)
        self._worth = above
        self._steps = 0
        self.best: list[int] | None = None

    def _densities(self) -> list[list[float]]:
        """Largest value per unit of each resource from each place in the order on."""
        resources = range(len(self._node.room))
        dense = [[0.0] * len(resources) for _ in range(len(self._shapes) + 1)]
        for place in reversed(range(len(self._shapes))):
            for resource in resources:
                size = self._sizes[place][resource]
                own = self._values[place] / size if size else float("inf")
                dense[place][resource] = max(own, dense[place + 1][resource])
        return dense

    def descend(self, place: int, room: list[int], value: float) -> None:
        self._steps += 1
        if value > self._worth + 1e-9:
            self._worth, self.best = value, list(self._taken)
        if place == len(self._shapes) or self._steps > MOST_STEPS:
            return
        # A resource that some later shape does not use bounds nothing: its density is infinite there.
        bound = min(
            (have * dense for have, dense in zip(room, self._dense[place], strict=True) if have or dense < 1e300),
            default=0.0,
        )
        if value + bound <= self._worth + 1e-9:
            return
        sizes, copies = self._sizes[place], min(self._most[place], self._node.copies(self._shapes[place], room))
        for count in range(copies, -1, -1):
            self._taken[place] = count
            beside = [have - count * size for have, size in zip(room, sizes, strict=True)]
            self.descend(place + 1, beside, value + count * self._values[place])
        self._taken[place] = 0
