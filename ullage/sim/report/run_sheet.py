"""A run as reports see it: name, settings, workload, fleet, and the score sheet's plain JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

JsonObject = Mapping[str, Any]
FORMAT = 1


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

    def as_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
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

    def of(self, scores: JsonObject) -> float | None:
        """Value of the measure; None if the score sheet does not have it. Counts by reason are summed up."""
        value: Any = scores
        for part in self.path:
            if not isinstance(value, Mapping) or part not in value:
                return None
            value = value[part]
        if isinstance(value, Mapping):
            return float(sum(value.values()))
        return float(value) if isinstance(value, int | float) else None


METRICS: Sequence[ComparedMeasure] = (
    ComparedMeasure("GPU allocation", ("gpus", "allocation"), "%", True),
    ComparedMeasure("waste", ("gpus", "hours", "waste"), "GPU hours", False),
    ComparedMeasure("waste while pods waited", ("gpus", "hours", "wasteWhileWaiting"), "GPU hours", False),
    ComparedMeasure("cost", ("cost", "total"), "", False),
    ComparedMeasure("cost of waste", ("cost", "wasted"), "", False),
    ComparedMeasure("pods placed", ("pods", "placed"), "", True),
    ComparedMeasure("pods finished", ("pods", "finished"), "", True),
    ComparedMeasure("pods still waiting", ("pods", "waiting"), "", False),
    ComparedMeasure("waiting, mean", ("waiting", "all", "mean"), "s", False),
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
