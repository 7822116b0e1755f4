"""Measures as text, with their units. Pure."""

from collections.abc import Mapping
from typing import Any

from ullage.sim.report.axes import spoken, spoken_time
from ullage.sim.report.run_sheet import MONEY, ComparedMeasure

AT_LEAST = "≥ "


def said(measure: ComparedMeasure, value: float | None, scores: Mapping[str, Any] | None = None) -> str:
    """A measure with its unit; `scores` tell the currency."""
    if value is None:
        return "-"
    if measure.unit == "%":
        return f"{value * 100:.2f} %"
    if measure.unit == "s":
        return spoken_time(value)
    if measure.unit == MONEY:
        currency = (scores or {}).get("cost", {}).get("currency", "")
        return f"{spoken(value)} {currency}".strip()
    return f"{spoken(value)} {measure.unit}".strip()
