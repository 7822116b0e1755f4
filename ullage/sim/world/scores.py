"""Score sheet of a run: GPUs used and idle, cost, waiting times and disruptions. Pure accumulation.

Fed with what happened and when, in order. Uses no API, no clock and no randomness: equal runs have equal sheets, to the
byte.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import msgspec

from ullage.model.device import MILLI_GPU
from ullage.model.provisioner import MICROS
from ullage.sim.world.series import Series

HOUR = 3600.0
ALL, SHARED = "all", "shared"
_INTEGRALS = ("capacity", "allocated", "idle", "waitingIdle", "price", "wastedPrice")
_LEVELS = ("capacity", "allocated", "waiting", "nodes", "costPerHour")


class WaitTimes:
    """Waiting times of pods in seconds, by number of GPUs."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    def add(self, size: str, seconds: float) -> None:
        self._seconds.setdefault(size, []).append(seconds)

    def table(self, still: Mapping[str, int]) -> dict[str, dict[str, float]]:
        """Waiting times by size, small sizes first, and of all pods."""
        sizes = sorted({*self._seconds, *still}, key=lambda size: (size == SHARED, size.zfill(9)))
        rows = {size: _row(self._seconds.get(size, ()), still.get(size, 0)) for size in sizes}
        every = [one for seconds in self._seconds.values() for one in seconds]
        return rows | {ALL: _row(every, sum(still.values()))}


def _row(seconds: Sequence[float], still: int) -> dict[str, float]:
    ranked = sorted(seconds)
    row = {f"p{part}": round(percentile(ranked, part), 3) for part in (50, 90, 99)}
    mean = sum(ranked) / len(ranked) if ranked else 0.0
    longest = ranked[-1] if ranked else 0.0
    return {"count": len(ranked), "mean": round(mean, 3), **row, "max": round(longest, 3), "still": still}


def percentile(ranked: Sequence[float], part: int) -> float:
    """Smallest value that `part` percent of the values do not exceed; 0 if there are none."""
    return ranked[max(0, ceil(len(ranked) * part / 100) - 1)] if ranked else 0.0


class ScoreSheet:
    """Levels change by the amounts added to them. GPUs are in thousandths, prices in millionths per hour."""

    def __init__(self) -> None:
        self.pods: Counter[str] = Counter()
        self.churn: Counter[str] = Counter()
        self.evicted: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self.waits = WaitTimes()
        self._still: Counter[str] = Counter()
        self._levels = dict.fromkeys(_LEVELS, 0)
        self._hours = dict.fromkeys(_INTEGRALS, 0.0)
        """Level times seconds."""
        self._series = Series(_LEVELS)
        self._at = 0.0

    def begin(self) -> None:
        """Begin scoring. Levels from building the world stay, counts are reset."""
        for counts in (self.pods, self.churn, self.evicted, self.decisions):
            counts.clear()
        self._hours = dict.fromkeys(_INTEGRALS, 0.0)
        self._series, self._at = Series(_LEVELS), 0.0

    def at(self, instant: float) -> None:
        """Set the time, in seconds since the beginning. Everything recorded next happened then."""
        if instant <= self._at:
            return
        seconds, levels = instant - self._at, self._levels
        capacity, allocated, waiting = levels["capacity"], levels["allocated"], levels["waiting"]
        price = levels["costPerHour"]
        idle = max(0, capacity - allocated)
        hours = self._hours
        hours["capacity"] += capacity * seconds
        hours["allocated"] += allocated * seconds
        hours["idle"] += idle * seconds
        hours["waitingIdle"] += min(idle, waiting) * seconds
        hours["price"] += price * seconds
        hours["wastedPrice"] += price * seconds * idle / capacity if capacity else 0.0
        shown = (capacity / MILLI_GPU, allocated / MILLI_GPU, waiting / MILLI_GPU, levels["nodes"], price / MICROS)
        self._series.add(self._at, instant, shown)
        self._at = instant

    def machine(self, gpus: int, price: int, *, gone: bool = False) -> None:
        """Add a paid instance and its GPUs, or remove it."""
        sign = -1 if gone else 1
        self._levels["capacity"] += sign * gpus * MILLI_GPU
        self._levels["costPerHour"] += sign * price

    def node(self, *, gone: bool = False) -> None:
        self._levels["nodes"] += -1 if gone else 1

    def begins_to_wait(self, size: str, milli: int) -> None:
        self._levels["waiting"] += milli
        self._still[size] += 1

    def ceases_to_wait(self, size: str, milli: int) -> None:
        self._levels["waiting"] -= milli
        self._still[size] -= 1

    @property
    def waiting(self) -> int:
        """Number of pending pods."""
        return sum(self._still.values())

    def allocated(self, milli: int) -> None:
        """Add to the GPUs allocated to pods, in thousandths; negative to subtract."""
        self._levels["allocated"] += milli

    def report(self, attempts: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
        """Whole score sheet, as plain JSON."""
        hours = {name: total / HOUR for name, total in self._hours.items()}
        capacity, allocated = hours["capacity"], hours["allocated"]
        return {
            "seconds": round(self._at, 3),
            "pods": dict(sorted(self.pods.items())) | {"waiting": self.waiting},
            "gpus": {
                "hours": {
                    "capacity": _gpus(capacity),
                    "allocated": _gpus(allocated),
                    "waste": _gpus(hours["idle"]),
                    "wasteWhileWaiting": _gpus(hours["waitingIdle"]),
                },
                "allocation": round(allocated / capacity, 6) if capacity else 0.0,
            },
            "cost": {
                "total": round(hours["price"] / MICROS, 4),
                "wasted": round(hours["wastedPrice"] / MICROS, 4),
            },
            "waiting": self.waits.table({size: count for size, count in self._still.items() if count}),
            "disruptions": {
                "preempted": self.decisions["Preempted"],
                "evicted": {why: count for why, count in sorted(self.evicted.items()) if count},
                "failed": self.pods["failed"],
            },
            "churn": dict(sorted(self.churn.items())),
            "decisions": dict(sorted(self.decisions.items())),
            "attempts": {result: dict(sorted(reasons.items())) for result, reasons in sorted(attempts.items())},
            "series": {"width": self._series.width, **self._series.columns(self._at)},
        }


def report_bytes(report: Mapping[str, Any]) -> bytes:
    """Canonical JSON: equal reports are equal bytes."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2)


def _gpus(milli_hours: float) -> float:
    return round(milli_hours / MILLI_GPU, 3)
