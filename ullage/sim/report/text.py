"""Reports as lines for a terminal, easy to read and to grep."""

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.sim.report.axes import spoken, spoken_time
from ullage.sim.report.run_sheet import METRICS, ComparedMeasure, RunSheet

Rows = list[tuple[str, ...]]


def summary(sheets: Sequence[RunSheet]) -> Rows:
    """Table of measures (rows) by runs (columns)."""
    rows: Rows = [("MEASURE", *(sheet.label for sheet in sheets))]
    for metric in METRICS:
        values = [metric.of(sheet.scores) for sheet in sheets]
        if any(value is not None for value in values):
            rows.append((metric.name, *(said(metric, value) for value in values)))
    return rows


_IN_BRIEF = ("GPU allocation", "waste", "cost", "waiting, mean", "waiting, 99 %", "pods still waiting", "pods evicted")


def turned(rows: Rows) -> Rows:
    """Table of runs (rows) by chief measures (columns), for many runs."""
    chief = [rows[0], *(row for row in rows[1:] if row[0] in _IN_BRIEF)]
    lines = [tuple(row[column] for row in chief) for column in range(len(rows[0]))]
    return [("RUN", *(cell.upper() for cell in lines[0][1:])), *lines[1:]]


def waiting(sheet: RunSheet) -> Rows:
    """Waiting times by number of GPUs."""
    rows: Rows = [("GPUS", "PODS", "MEAN", "50 %", "90 %", "99 %", "LONGEST", "STILL WAITING")]
    for size, one in by_size(sheet.scores.get("waiting", {})):
        times = tuple(_time(one.get(key)) for key in ("mean", "p50", "p90", "p99", "max"))
        rows.append((size, str(one.get("count", 0)), *times, str(one.get("still", 0))))
    return rows


def by_size(waiting_times: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Waiting times from the smallest pods to the largest, then shares of GPUs, then all together."""
    return [(size, waiting_times[size]) for size in sorted(waiting_times, key=_size_order)]


def reasons(sheet: RunSheet) -> Rows:
    """Decisions by reason, the most frequent first."""
    return [
        ("DECISION", "TIMES"),
        *((name, f"{count:,}") for name, count in by_count(sheet.scores.get("decisions", {}))),
    ]


def by_count(counts: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Counts, most frequent first, then by name. Nested counts are named by their path."""
    flat = _flat(counts)
    return sorted(flat.items(), key=lambda item: (-item[1], item[0]))


def differences(compared: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines that `--compare` prints after the table: settings, first differing decision and measures of each run."""
    lines: list[str] = []
    for one in compared:
        lines += [f"{one['label']} beside {one['beside']}"]
        lines += [f"  {path}: {pair[0]!r} -> {pair[1]!r}" for path, pair in one["settings"].items()]
        lines += [f"  {line}" for line in _parting(one["parting"], one["beside"], one["label"])]
        for metric in one["metrics"]:
            lines.append(f"  {_difference(metric)}")
        lines += [] if one["metrics"] else ["  no measure differs"]
    return lines


def said(metric: ComparedMeasure, value: float | None) -> str:
    """A measure with its unit."""
    if value is None:
        return "-"
    if metric.unit == "%":
        return f"{value * 100:.2f} %"
    return _time(value) if metric.unit == "s" else f"{spoken(value)} {metric.unit}".strip()


def _difference(metric: Mapping[str, Any]) -> str:
    known = next(one for one in METRICS if one.name == metric["metric"])
    percent = "" if metric["percent"] is None else f" ({metric['percent']:+.1f} %)"
    judged = {True: ", better", False: ", worse", None: ""}[metric["better"]]
    return f"{metric['metric']}: {said(known, metric['first'])} -> {said(known, metric['other'])}{percent}{judged}"


def _parting(parting: Mapping[str, Any] | None, first: str, other: str) -> list[str]:
    if parting is None:
        return ["every decision is the same"]
    lines = [f"the first {parting['after']:,} decisions are the same; then"]
    for whose, label in (("first", first), ("other", other)):
        lines.append(f"  {label}: {_step(parting[whose])}")
    return lines


def _step(step: Mapping[str, Any] | None) -> str:
    if step is None:
        return "nothing more"
    return f"{step['reason']} {step['about']} after {spoken_time(step['at'])}: {step['note']}"


def _size_order(size: str) -> tuple[int, float]:
    try:
        return 0, float(size)
    except ValueError:
        return (2 if size == "all" else 1), 0.0


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else spoken_time(seconds)


def _flat(counts: Mapping[str, Any], path: str = "") -> dict[str, int]:
    found: dict[str, int] = {}
    for name in sorted(counts):
        below = f"{path} {name}".strip()
        value = counts[name]
        found |= _flat(value, below) if isinstance(value, Mapping) else {below: int(value)}
    return found
