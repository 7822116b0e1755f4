"""Score sheet of a run: GPUs used and idle, cost, waiting times and disruptions. Pure accumulation.

Fed with what happened and when, in order. Uses no API, no clock and no randomness: equal runs have equal sheets, to the
byte.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from ullage.model.device import MILLI_GPU
from ullage.model.provisioner import MICROS
from ullage.sim.fleet.prices import CURRENCY
from ullage.sim.world.series import Series
from ullage.sim.world.steady import steady_state
from ullage.sim.world.waits import PodWait, table

HOUR = 3600.0
_INTEGRALS = ("capacity", "allocated", "idle", "waitingIdle", "price", "wastedPrice")
_LEVELS = ("capacity", "allocated", "waiting", "nodes", "costPerHour")


class ScoreSheet:
    """Levels change by the amounts added to them. GPUs are in thousandths, prices in millionths per hour."""

    def __init__(self, currency: str = CURRENCY) -> None:
        self._currency = currency
        self.pods: Counter[str] = Counter()
        self.churn: Counter[str] = Counter()
        self.evicted: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self._waits: list[PodWait] = []
        """Waits that are over."""
        self._waiting: dict[str, tuple[str, float]] = {}
        """Size of each pending pod, and since when it waits."""
        self._last_arrival = 0.0
        self._levels = dict.fromkeys(_LEVELS, 0)
        self._hours = dict.fromkeys(_INTEGRALS, 0.0)
        """Level times seconds."""
        self._series = Series(_LEVELS)
        self._at = 0.0

    def begin(self) -> None:
        """Begin scoring. Levels from building the world stay, counts are reset."""
        for counts in (self.pods, self.churn, self.evicted, self.decisions):
            counts.clear()
        self._waits.clear()
        self._waiting = {pod: (size, 0.0) for pod, (size, _) in self._waiting.items()}
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

    def begins_to_wait(self, pod: str, size: str, milli: int) -> None:
        self._levels["waiting"] += milli
        self._waiting[pod] = (size, self._at)

    def arrived(self) -> None:
        """Note that a job of the workload has arrived."""
        self._last_arrival = self._at

    def ceases_to_wait(self, pod: str, milli: int, *, placed: bool) -> None:
        self._levels["waiting"] -= milli
        size, since = self._waiting.pop(pod)
        self._waits.append(PodWait(size, since, self._at - since, ran=placed, left=not placed))

    @property
    def waiting(self) -> int:
        """Number of pending pods."""
        return len(self._waiting)

    def waits(self) -> list[PodWait]:
        """Waits of all pods, those that still wait among them."""
        still = (PodWait(size, since, self._at - since, ran=False) for size, since in self._waiting.values())
        return [*self._waits, *still]

    def allocated(self, milli: int) -> None:
        """Add to the GPUs allocated to pods, in thousandths; negative to subtract."""
        self._levels["allocated"] += milli

    def report(self, attempts: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
        """Whole score sheet, as plain JSON."""
        hours = {name: total / HOUR for name, total in self._hours.items()}
        capacity, allocated = hours["capacity"], hours["allocated"]
        waits, series = self.waits(), self._series.columns(self._at)
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
                "currency": self._currency,
            },
            "waiting": table(waits),
            "steady": steady_state(series, self._series.width, self._last_arrival, waits),
            "disruptions": {
                "preempted": self.decisions["Preempted"],
                "evicted": {why: count for why, count in sorted(self.evicted.items()) if count},
                "failed": self.pods["failed"],
            },
            "churn": dict(sorted(self.churn.items())),
            "decisions": dict(sorted(self.decisions.items())),
            "attempts": {result: dict(sorted(reasons.items())) for result, reasons in sorted(attempts.items())},
            "series": {"width": self._series.width, **series},
        }


def report_bytes(report: Mapping[str, Any]) -> bytes:
    """Canonical JSON: equal reports are equal bytes."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2)


def _gpus(milli_hours: float) -> float:
    return round(milli_hours / MILLI_GPU, 3)
