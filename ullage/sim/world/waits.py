"""Waiting times of pods, those who never ran among them. Pure.

A pod that is still waiting at the end, or was deleted before it had a node, has waited at least so long: it counts with
the time it has waited, and every figure that would be larger if it had waited on is marked as a lower bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

ALL, SHARED = "all", "shared"
PERCENTILES = (50, 90, 99)


class PodWait(NamedTuple):
    """The wait of one pod, in seconds."""

    size: str
    """GPUs it asked for, or `shared`."""
    since: float
    """Seconds from the beginning of the run to its creation."""
    seconds: float
    ran: bool = True
    """False if it got no node as long as it was seen."""
    left: bool = False
    """True if it was deleted while it waited."""


def table(waits: Iterable[PodWait]) -> dict[str, dict[str, Any]]:
    """Waiting times by size, small sizes first, and of all pods."""
    by_size: dict[str, list[PodWait]] = {}
    for one in waits:
        by_size.setdefault(one.size, []).append(one)
    sizes = sorted(by_size, key=lambda size: (size == SHARED, size.zfill(9)))
    rows = {size: row(by_size[size]) for size in sizes}
    return rows | {ALL: row([one for size in sizes for one in by_size[size]])}


def row(waits: Sequence[PodWait]) -> dict[str, Any]:
    """Mean, percentiles and longest wait of these pods.

    `count` ran, `still` wait at the end, `left` were deleted while they waited. `atLeast` names the figures that are
    lower bounds.
    """
    ranked = sorted(one.seconds for one in waits)
    shortest_unknown = min((one.seconds for one in waits if not one.ran), default=None)
    figures = {f"p{part}": percentile(ranked, part) for part in PERCENTILES}
    figures |= {"mean": sum(ranked) / len(ranked) if ranked else 0.0, "max": ranked[-1] if ranked else 0.0}
    bounds = () if shortest_unknown is None else _lower_bounds(figures, shortest_unknown)
    return {
        "count": sum(one.ran for one in waits),
        **{name: round(value, 3) for name, value in figures.items()},
        "still": sum(not one.ran and not one.left for one in waits),
        "left": sum(one.left for one in waits),
        "atLeast": sorted(bounds),
    }


def _lower_bounds(figures: Mapping[str, float], shortest_unknown: float) -> list[str]:
    """A percentile is exact while nobody who never ran is among those at or below it."""
    return [name for name, value in figures.items() if name in ("mean", "max") or value >= shortest_unknown]


def percentile(ranked: Sequence[float], part: int) -> float:
    """Smallest value that `part` percent of the values do not exceed; 0 if there are none."""
    return ranked[max(0, ceil(len(ranked) * part / 100) - 1)] if ranked else 0.0
