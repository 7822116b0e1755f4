"""A run as reports see it: its name, what it was of, and the score sheet's plain JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

JsonObject = Mapping[str, Any]
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSheet:
    """One run. All of it is the same for the same seed, to the byte."""

    label: str
    seed: int
    settings: JsonObject
    """Those that are not as by default, by path."""
    workload: JsonObject
    fleet: JsonObject
    scores: JsonObject
    decisions: JsonObject
    """`count`, and a `digest` of all of them in order."""

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
class Metric:
    """A number worth comparing: where it is in the score sheet, and whether more of it is better."""

    name: str
    path: tuple[str, ...]
    unit: str = ""
    more_is_better: bool | None = None

    def of(self, scores: JsonObject) -> float | None:
        """None where the score sheet does not have it. What is counted by reason is summed up."""
        value: Any = scores
        for part in self.path:
            if not isinstance(value, Mapping) or part not in value:
                return None
            value = value[part]
        if isinstance(value, Mapping):
            return float(sum(value.values()))
        return float(value) if isinstance(value, int | float) else None


METRICS: Sequence[Metric] = (
    Metric("GPU allocation", ("gpus", "allocation"), "%", True),
    Metric("waste", ("gpus", "hours", "waste"), "GPU hours", False),
    Metric("waste while pods waited", ("gpus", "hours", "wasteWhileWaiting"), "GPU hours", False),
    Metric("cost", ("cost", "total"), "", False),
    Metric("cost of waste", ("cost", "wasted"), "", False),
    Metric("pods placed", ("pods", "placed"), "", True),
    Metric("pods finished", ("pods", "finished"), "", True),
    Metric("pods still waiting", ("pods", "waiting"), "", False),
    Metric("waiting, mean", ("waiting", "all", "mean"), "s", False),
    Metric("waiting, median", ("waiting", "all", "p50"), "s", False),
    Metric("waiting, 90 %", ("waiting", "all", "p90"), "s", False),
    Metric("waiting, 99 %", ("waiting", "all", "p99"), "s", False),
    Metric("waiting, longest", ("waiting", "all", "max"), "s", False),
    Metric("pods evicted", ("disruptions", "evicted"), "", False),
    Metric("pods preempted", ("disruptions", "preempted"), "", False),
    Metric("pods failed", ("disruptions", "failed"), "", False),
    Metric("nodes bought", ("churn", "bought"), "", None),
    Metric("nodes removed", ("churn", "removed"), "", None),
)
