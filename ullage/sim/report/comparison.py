"""Runs side by side: which settings differ, where decisions part, and what comes of it in every measure. Pure."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ullage.sim.report.sheet import METRICS, RunSheet

_BY_POLICY = re.compile(r", by [a-z-]+(/[0-9]+)?$")
"""How a note says which policy chose: that differs between policies that choose the same."""


class Step(NamedTuple):
    """A decision as two runs can be compared by it."""

    at: float
    loop: str
    reason: str
    about: str
    note: str

    def same_as(self, other: "Step") -> bool:
        """Whether two runs did the same at the same time, by whatever policy."""
        return self == other or (
            self[:4] == other[:4] and _BY_POLICY.sub("", self.note) == _BY_POLICY.sub("", other.note)
        )

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def compared(sheets: Sequence[RunSheet], steps: Sequence[Sequence[Step]]) -> list[dict[str, Any]]:
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


def parting(first: Sequence[Step], other: Sequence[Step]) -> dict[str, Any] | None:
    """Where two runs part: how many decisions they share, and the next of each. None where they never do."""
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
