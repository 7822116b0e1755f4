"""Runs of several seeds as one: means, and 95 % confidence intervals by Student's t. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ullage.sim.report.run_sheet import ComparedMeasure, RunSheet

_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Quantile 97.5 % of Student's t, by degrees of freedom from 1 on."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and the 95 % confidence interval around it. Without spread it is one value."""

    mean: float
    half: float
    count: int

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    @property
    def sign(self) -> int:
        """1 or -1 if all of the interval is above or below zero; 0 if it contains zero, or is of one value."""
        if self.count < 2:
            return 0
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs that differ in nothing but their seeds."""

    label: str
    sheets: tuple[RunSheet, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sheet.seed for sheet in self.sheets)

    def of(self, measure: ComparedMeasure) -> Interval | None:
        """The measure over all seeds; None if a run does not have it."""
        values = [measure.of(sheet.scores) for sheet in self.sheets]
        known = [value for value in values if value is not None]
        return interval(known) if known and len(known) == len(values) else None

    def bound(self, measure: ComparedMeasure) -> bool:
        """True if the measure is a lower bound in one of the runs."""
        return any(measure.is_bound(sheet.scores) for sheet in self.sheets)


def interval(values: Sequence[float]) -> Interval:
    """Mean of at least one value, and its interval."""
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return Interval(mean, 0.0, count)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return Interval(mean, t_quantile(count - 1) * spread / math.sqrt(count), count)


def t_quantile(freedom: int) -> float:
    """Quantile 97.5 % of Student's t."""
    return _T[freedom - 1] if freedom <= len(_T) else 1.96 + 2.4 / freedom


def grouped(sheets: Sequence[RunSheet]) -> list[RunGroup]:
    """Runs by group, in the order of their first runs."""
    found: dict[str, list[RunSheet]] = {}
    for sheet in sheets:
        found.setdefault(sheet.group or sheet.label, []).append(sheet)
    return [RunGroup(label, tuple(runs)) for label, runs in found.items()]


def difference(first: RunGroup, other: RunGroup, measure: ComparedMeasure) -> Interval | None:
    """Difference of the measure from the first group to the other: seed by seed if both have the same seeds."""
    if first.seeds != other.seeds:
        one, two = first.of(measure), other.of(measure)
        if one is None or two is None:
            return None
        return Interval(two.mean - one.mean, math.hypot(one.half, two.half), min(one.count, two.count))
    pairs = [(measure.of(a.scores), measure.of(b.scores)) for a, b in zip(first.sheets, other.sheets, strict=True)]
    known = [two - one for one, two in pairs if one is not None and two is not None]
    return interval(known) if known and len(known) == len(pairs) else None
