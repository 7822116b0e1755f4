"""A report as plain JSON: headline, what was run, every run, groups of seeds, and the comparison. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.sim.report.headline import headline
from ullage.sim.report.intervals import RunGroup, grouped
from ullage.sim.report.run_sheet import FORMAT, METRICS, RunSheet


def document(
    sheets: Sequence[RunSheet], compared: Sequence[Mapping[str, Any]], about: Mapping[str, str]
) -> dict[str, Any]:
    """The whole report."""
    return {
        "format": FORMAT,
        "headline": headline(sheets),
        "about": dict(about),
        "runs": [sheet.as_json() for sheet in sheets],
        "groups": [_group(group) for group in grouped(sheets)],
        "comparison": list(compared),
    }


def _group(group: RunGroup) -> dict[str, Any]:
    measures = {}
    for measure in METRICS:
        value = group.of(measure)
        if value is not None:
            low, high = round(value.low, 6), round(value.high, 6)
            measures[measure.name] = {"mean": round(value.mean, 6), "low": low, "high": high}
    return {"label": group.label, "seeds": list(group.seeds), "measures": measures}
