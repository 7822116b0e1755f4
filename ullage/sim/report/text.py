"""Reports as lines for a terminal, easy to read and to grep."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ullage.sim.report.axes import spoken_time
from ullage.sim.report.intervals import Interval, RunGroup, grouped
from ullage.sim.report.run_sheet import METRICS, MONEY, ComparedMeasure, RunSheet
from ullage.sim.report.values import AT_LEAST, said

Rows = list[tuple[str, ...]]


def summary(sheets: Sequence[RunSheet]) -> Rows:
    """Table of measures (rows) by groups of runs (columns). Several seeds give a mean and a 95 % interval."""
    groups = grouped(sheets)
    rows: Rows = [("MEASURE", *(group.label for group in groups))]
    rows += [row for row in (_window_row(groups), _seeds_row(groups)) if row is not None]
    for metric in METRICS:
        values = [group.of(metric) for group in groups]
        if metric.unit == MONEY and not any(value is not None and value.mean for value in values):
            continue
        if any(value is not None for value in values):
            cells = (_cell(metric, group, value) for group, value in zip(groups, values, strict=True))
            rows.append((metric.name, *cells))
    return rows


def _window_row(groups: Sequence[RunGroup]) -> tuple[str, ...] | None:
    windows = [group.sheets[0].scores.get("steady", {}) for group in groups]
    if not any(windows):
        return None
    return ("steady state", *(_window(one) for one in windows))


def _window(steady: Mapping[str, Any]) -> str:
    if not steady.get("found"):
        return f"none: {steady.get('why', 'not looked for')}"
    return f"{spoken_time(steady['from'])} to {spoken_time(steady['to'])}"


def _seeds_row(groups: Sequence[RunGroup]) -> tuple[str, ...] | None:
    if all(len(group.sheets) == 1 for group in groups):
        return None
    return ("seeds", *(f"{len(group.sheets)} (mean ± 95 %)" for group in groups))


def _cell(metric: ComparedMeasure, group: RunGroup, value: Interval | None) -> str:
    if value is None:
        return "-"
    scores = group.sheets[0].scores
    spread = f" ± {said(metric, value.half, scores)}" if value.half else ""
    return f"{AT_LEAST if group.bound(metric) else ''}{said(metric, value.mean, scores)}{spread}"


def notes(sheets: Sequence[RunSheet]) -> Rows:
    """Workload, fleet and the source of prices, in a few lines."""
    first = sheets[0]
    rows: Rows = []
    for part in ("workload", "fleet"):
        said: Mapping[str, Any] = getattr(first, part)
        shown = [f"{said[key]:,} {key}" for key in ("jobs", "pods", "nodes", "pools") if said.get(key)]
        shown += [str(said["GPUs"])] if said.get("GPUs") else []
        rows.append((part, f"{said.get('name', '')}: {', '.join(shown)}".removeprefix(": ")))
    if first.scores.get("cost", {}).get("total"):
        rows.append(("prices", str(first.fleet.get("prices", ""))))
    return rows


_IN_BRIEF = (
    "seeds", "GPU allocation", "waste", "cost", "waiting, mean", "waiting, 99 %", "pods still waiting", "pods evicted",
)  # fmt: skip


def turned(rows: Rows) -> Rows:
    """Table of runs (rows) by chief measures (columns), for many runs."""
    chief = [rows[0], *(row for row in rows[1:] if row[0] in _IN_BRIEF)]
    lines = [tuple(row[column] for row in chief) for column in range(len(rows[0]))]
    return [("RUN", *(cell.upper() for cell in lines[0][1:])), *lines[1:]]


def waiting(sheet: RunSheet) -> Rows:
    """Waiting times by number of GPUs. `≥` marks lower bounds: pods that never ran are in them."""
    rows: Rows = [("GPUS", "RAN", "MEAN", "50 %", "90 %", "99 %", "LONGEST", "STILL WAITING", "DELETED WAITING")]
    for size, one in by_size(sheet.scores.get("waiting", {})):
        times = tuple(_bound_time(one, key) for key in ("mean", "p50", "p90", "p99", "max"))
        rows.append((size, str(one.get("count", 0)), *times, str(one.get("still", 0)), str(one.get("left", 0))))
    return rows


def _bound_time(times: Mapping[str, Any], key: str) -> str:
    value = times.get(key)
    if value is None:
        return "-"
    return f"{AT_LEAST if key in times.get('atLeast', ()) else ''}{spoken_time(value)}"


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
        lines += [f"  {path}: {setting(pair[0])} -> {setting(pair[1])}" for path, pair in one["settings"].items()]
        lines += [f"  {line}" for line in _parting(one["parting"], one["beside"], one["label"])]
        for metric in one["metrics"]:
            lines.append(f"  {_difference(metric)}")
        lines += [] if one["metrics"] else ["  no measure differs"]
    return lines


def _difference(metric: Mapping[str, Any]) -> str:
    known = next(one for one in METRICS if one.name == metric["metric"])
    percent = "" if metric["percent"] is None else f" ({metric['percent']:+.1f} %)"
    opinion = {True: ", better", False: ", worse", None: ""}[metric["better"]]
    scores = {"cost": {"currency": metric.get("currency", "")}}
    first, other = said(known, metric["first"], scores), said(known, metric["other"], scores)
    sure = {True: ", certain at 95 %", False: ", not certain", None: ""}[metric.get("certain")]
    return f"{metric['metric']}: {first} -> {other}{percent}{opinion}{sure}"


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


def setting(value: Any) -> str:
    """A setting as a settings file has it; a default is called so."""
    return "(default)" if value is None else json.dumps(value, ensure_ascii=False)


def _flat(counts: Mapping[str, Any], path: str = "") -> dict[str, int]:
    found: dict[str, int] = {}
    for name in sorted(counts):
        below = f"{path} {name}".strip()
        value = counts[name]
        found |= _flat(value, below) if isinstance(value, Mapping) else {below: int(value)}
    return found
