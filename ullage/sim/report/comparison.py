"""Comparison of runs: settings that differ, the first decision that differs, and the difference in every measure.

Pure.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ullage.sim.report.intervals import RunGroup, difference, grouped
from ullage.sim.report.run_sheet import METRICS, MONEY, RunSheet

_BY_POLICY = re.compile(r", by [a-z-]+(/[0-9]+)?$")
"""Policy at the end of a note. It is left out of comparisons: different policies can choose the same."""


class ComparedDecision(NamedTuple):
    """A decision in the form in which two runs are compared."""

    at: float
    loop: str
    reason: str
    about: str
    note: str

    def same_as(self, other: "ComparedDecision") -> bool:
        """True if two runs did the same at the same time, by the same or another policy."""
        return self == other or (
            self[:4] == other[:4] and _BY_POLICY.sub("", self.note) == _BY_POLICY.sub("", other.note)
        )

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def compared(sheets: Sequence[RunSheet], steps: Sequence[Sequence[ComparedDecision]]) -> list[dict[str, Any]]:
    """Every group of runs beside the first: settings, the first decision that differs, and measures.

    Decisions are those of each group's first seed.
    """
    groups = grouped(sheets)
    if len(groups) < 2:
        return []
    taken = {id(sheet): own for sheet, own in zip(sheets, steps, strict=True)}
    first = groups[0]
    return [
        {
            "label": group.label,
            "beside": first.label,
            "settings": _settings(first.sheets[0], group.sheets[0]),
            "parting": parting(taken[id(first.sheets[0])], taken[id(group.sheets[0])]),
            "metrics": _metrics(first, group),
        }
        for group in groups[1:]
    ]


def parting(first: Sequence[ComparedDecision], other: Sequence[ComparedDecision]) -> dict[str, Any] | None:
    """First difference of two runs: the number of equal decisions before it, and the next decision of each run.

    None if all are equal.
    """
    shared = 0
    for one, two in zip(first, other, strict=False):
        if not one.same_as(two):
            break
        shared += 1
    if shared == len(first) == len(other):
        return None
    return {
        "after": shared,
        "first": first[shared].as_json() if shared < len(first) else None,
        "other": other[shared].as_json() if shared < len(other) else None,
    }


def _settings(first: RunSheet, other: RunSheet) -> dict[str, list[Any]]:
    paths = sorted({*first.settings, *other.settings})
    pairs = {path: [first.settings.get(path), other.settings.get(path)] for path in paths}
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}


def _metrics(first: RunGroup, other: RunGroup) -> list[dict[str, Any]]:
    found = []
    for metric in METRICS:
        one, two, between = first.of(metric), other.of(metric), difference(first, other, metric)
        if one is None or two is None or between is None or one.mean == two.mean:
            continue
        better = None if metric.more_is_better is None else (two.mean > one.mean) == metric.more_is_better
        entry = {
            "metric": metric.name,
            "unit": metric.unit,
            "first": round(one.mean, 6),
            "other": round(two.mean, 6),
            "difference": round(between.mean, 6),
            "percent": round(between.mean / one.mean * 100, 3) if one.mean else None,
            "better": better,
        }
        if metric.unit == MONEY:
            entry["currency"] = first.sheets[0].scores["cost"].get("currency", "")
        if between.count > 1:
            entry |= {"low": round(between.low, 6), "high": round(between.high, 6), "certain": between.sign != 0}
        found.append(entry)
    return found
