"""Comparison of runs: settings that differ, the first decision that differs, and the difference in every measure.

Pure.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ullage.sim.report.run_sheet import METRICS, RunSheet

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
    """Every run beside the first: settings, the first decision that differs, and measures."""
    if len(sheets) < 2:
        return []
    return [
        {
            "label": sheet.label,
            "beside": sheets[0].label,
            "settings": _settings(sheets[0], sheet),
            "parting": parting(steps[0], own),
            "metrics": _metrics(sheets[0], sheet),
        }
        for sheet, own in zip(sheets[1:], steps[1:], strict=True)
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


def _metrics(first: RunSheet, other: RunSheet) -> list[dict[str, Any]]:
    found = []
    for metric in METRICS:
        one, two = metric.of(first.scores), metric.of(other.scores)
        if one is None or two is None or one == two:
            continue
        better = None if metric.more_is_better is None else (two > one) == metric.more_is_better
        found.append(
            {
                "metric": metric.name,
                "unit": metric.unit,
                "first": one,
                "other": two,
                "difference": round(two - one, 6),
                "percent": round((two - one) / one * 100, 3) if one else None,
                "better": better,
            }
        )
    return found
