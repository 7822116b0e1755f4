"""A run as reports see it: name, settings, workload, fleet, and the score sheet's plain JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

JsonObject = Mapping[str, Any]
FORMAT = 1
LEFT_OUT = "pods left out that can never run"
"""Key of a workload's description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSheet:
    """One run. Equal seeds give equal sheets, to the byte."""

    label: str
    seed: int
    settings: JsonObject
    """Settings that differ from their defaults, by path."""
    workload: JsonObject
    fleet: JsonObject
    scores: JsonObject
    decisions: JsonObject
    """`count`, and a `digest` of all decisions in order."""
    group: str = ""
    """Label of the runs that differ from this one in nothing but the seed; empty: there are none."""

    def as_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "group": self.group or self.label,
            "seed": self.seed,
            "settings": self.settings,
            "workload": self.workload,
            "fleet": self.fleet,
            "decisions": self.decisions,
            "scores": self.scores,
        }


@dataclass(frozen=True, slots=True)
class ComparedMeasure:
    """A measure to compare: its path in the score sheet, and whether more of it is better."""

    name: str
    path: tuple[str, ...]
    unit: str = ""
    more_is_better: bool | None = None
    factor: float = 1.0
    """Factor from the score sheet's unit to that of the measure."""

    def of(self, scores: JsonObject) -> float | None:
        """Value of the measure; None if the score sheet does not have it. Counts by reason are summed up."""
        value: Any = scores
        for part in self.path:
            if not isinstance(value, Mapping) or part not in value:
                return None
            value = value[part]
        if isinstance(value, Mapping):
            return float(sum(value.values()))
        return float(value) * self.factor if isinstance(value, int | float) else None

    def is_bound(self, scores: JsonObject) -> bool:
        """True if the value is a lower bound, because pods that never ran are in it."""
        value: Any = scores
        for part in self.path[:-1]:
            value = value.get(part, {}) if isinstance(value, Mapping) else {}
        return isinstance(value, Mapping) and self.path[-1] in value.get("atLeast", ())


MONEY = "money"
HOURS_PER_MONTH = 730.0
STEADY_ALLOCATION = ComparedMeasure("GPU allocation, steady state", ("steady", "allocation"), "%", True)
STEADY_WAITING = ComparedMeasure("waiting, mean, steady state", ("steady", "waiting", "mean"), "s", False)
MONTHLY_COST = ComparedMeasure("cost per month, steady state", ("steady", "costPerHour"), MONEY, False, HOURS_PER_MONTH)
ALLOCATION = ComparedMeasure("GPU allocation", ("gpus", "allocation"), "%", True)
TOTAL_COST = ComparedMeasure("cost", ("cost", "total"), MONEY, False)
WAITING = ComparedMeasure("waiting, mean", ("waiting", "all", "mean"), "s", False)
METRICS: Sequence[ComparedMeasure] = (
    STEADY_ALLOCATION,
    STEADY_WAITING,
    MONTHLY_COST,
    ComparedMeasure(
        "cost of idle GPUs per month, steady state", ("steady", "idleCostPerHour"), MONEY, False, HOURS_PER_MONTH
    ),
    ALLOCATION,
    ComparedMeasure("waste", ("gpus", "hours", "waste"), "GPU hours", False),
    ComparedMeasure("waste while pods waited", ("gpus", "hours", "wasteWhileWaiting"), "GPU hours", False),
    TOTAL_COST,
    ComparedMeasure("cost of waste", ("cost", "wasted"), MONEY, False),
    ComparedMeasure("pods placed", ("pods", "placed"), "", True),
    ComparedMeasure("pods finished", ("pods", "finished"), "", True),
    ComparedMeasure("pods still waiting", ("pods", "waiting"), "", False),
    ComparedMeasure("pods deleted while waiting", ("waiting", "all", "left"), "", False),
    WAITING,
    ComparedMeasure("waiting, median", ("waiting", "all", "p50"), "s", False),
    ComparedMeasure("waiting, 90 %", ("waiting", "all", "p90"), "s", False),
    ComparedMeasure("waiting, 99 %", ("waiting", "all", "p99"), "s", False),
    ComparedMeasure("waiting, longest", ("waiting", "all", "max"), "s", False),
    ComparedMeasure("pods evicted", ("disruptions", "evicted"), "", False),
    ComparedMeasure("pods preempted", ("disruptions", "preempted"), "", False),
    ComparedMeasure("pods failed", ("disruptions", "failed"), "", False),
    ComparedMeasure("nodes bought", ("churn", "bought"), "", None),
    ComparedMeasure("nodes removed", ("churn", "removed"), "", None),
)
