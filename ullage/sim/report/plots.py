"""Plots of a report, and the table below each of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ullage.sim.report import svg
from ullage.sim.report.axes import spoken, spoken_time
from ullage.sim.report.run_sheet import RunSheet
from ullage.sim.report.svg import Bar, BarGroup, Line, Plot
from ullage.sim.report.text import by_count, by_size

_MOST_ROWS = 48
"""Rows of a table below a plot, at most. The whole series is in the JSON."""
_MOST_REASONS = 20
_HOUR = 3600.0
_PERCENTILES = (("p50", "half of them"), ("p90", "90 %"), ("p99", "99 %"))


@dataclass(frozen=True, slots=True)
class DrawnPlot:
    """A plot that has been drawn: in one chart, or one for each run, side by side and on the same axes."""

    plot: Plot
    charts: tuple[tuple[str, str], ...]
    """Caption and SVG of each."""
    legend: tuple[tuple[str, int], ...]
    rows: tuple[tuple[str, ...], ...]


def all_plots(sheets: Sequence[RunSheet]) -> Iterator[DrawnPlot]:
    """All plots, in the order they are shown."""
    yield _allocation(sheets)
    yield _over_time(
        Plot("waste", "Waste", "GPUs that are paid for and given to nobody.", "GPUs"),
        sheets,
        lambda series: [have - given for have, given in zip(series["capacity"], series["allocated"], strict=True)],
    )
    yield _over_time(
        Plot("queue", "Waiting demand", "Whole GPUs asked for by pods without a node.", "GPUs"),
        sheets,
        lambda series: list(series["waiting"]),
    )
    yield _over_time(
        Plot("cost", "Cost so far", "What nodes have cost, by their prices per hour.", "cost"), sheets, _summed_cost
    )
    yield _over_time(Plot("nodes", "Nodes", "Nodes there are.", "nodes"), sheets, lambda series: list(series["nodes"]))
    yield _waiting(sheets)
    yield _events(sheets)
    yield _reasons(sheets)


def _allocation(sheets: Sequence[RunSheet]) -> DrawnPlot:
    plot = Plot("allocation", "GPU allocation", "GPUs there are, and GPUs given to pods.", "GPUs")
    drawn: list[list[Line]] = []
    for number, sheet in enumerate(sheets):
        series, of = _series(sheet), "" if len(sheets) == 1 else f", {sheet.label}"
        drawn.append(
            [
                Line(f"there are{of}", series["capacity"], series["width"], colour=7, faint=True),
                Line(f"given{of}", series["allocated"], series["width"], colour=number),
            ]
        )
    return _made(plot, sheets, drawn)


def _over_time(plot: Plot, sheets: Sequence[RunSheet], values: Any) -> DrawnPlot:
    return _made(
        plot,
        sheets,
        [
            [Line(sheet.label, values(_series(sheet)), _series(sheet)["width"], colour=number)]
            for number, sheet in enumerate(sheets)
        ],
    )


def _made(plot: Plot, sheets: Sequence[RunSheet], by_run: Sequence[Sequence[Line]]) -> DrawnPlot:
    drawn = [line for run in by_run for line in run]
    axes = svg.axes_of(drawn)
    charts = tuple(
        (sheet.label, svg.lines(_numbered(plot, number, len(sheets)), own, axes, _window(sheet)))
        for number, (sheet, own) in enumerate(zip(sheets, by_run, strict=True))
    )
    longest = max((len(line.values) for line in drawn), default=0)
    every = max(1, -(-longest // _MOST_ROWS))
    rows: list[tuple[str, ...]] = [("time", *(line.name for line in drawn))]
    for place in range(0, longest, every):
        at = spoken_time(place * drawn[0].width)
        rows.append((at, *(_value_at(line, place * drawn[0].width) for line in drawn)))
    return DrawnPlot(plot, charts, tuple((line.name, line.colour) for line in drawn), tuple(rows))


def _numbered(plot: Plot, number: int, count: int) -> Plot:
    """Plot of one chart of several, with an id of its own."""
    return plot if count == 1 else replace(plot, id=f"{plot.id}-{number}")


def _window(sheet: RunSheet) -> tuple[float, float] | None:
    steady = sheet.scores.get("steady", {})
    return (steady["from"], steady["to"]) if steady.get("found") else None


def _value_at(line: Line, at: float) -> str:
    place = int(at / line.width) if line.width else 0
    return spoken(line.values[place]) if place < len(line.values) else "-"


def _waiting(sheets: Sequence[RunSheet]) -> DrawnPlot:
    plot = Plot(
        "waiting",
        "Waiting times",
        "From a pod's creation to its bind, by GPUs asked for: how long half, 90 % and 99 % of them waited at most.",
        "time",
    )
    sizes = [size for size, _ in by_size({size: 0 for sheet in sheets for size in sheet.scores.get("waiting", {})})]
    groups, rows = [], [("GPUs", *(f"{sheet.label}, {said}" for sheet in sheets for _, said in _PERCENTILES))]
    for size in sizes:
        bars = []
        for number, sheet in enumerate(sheets):
            times = sheet.scores.get("waiting", {}).get(size, {})
            for place, (key, said) in enumerate(_PERCENTILES):
                value = times.get(key)
                colour = number if len(sheets) > 1 else place
                told = "nobody" if value is None else spoken_time(value)
                bars.append(Bar(f"{sheet.label}, {said}", value or 0.0, told, colour))
        groups.append(BarGroup(size, tuple(bars)))
        rows.append((size, *(bar.said for bar in bars)))
    legend = (
        tuple((sheet.label, number) for number, sheet in enumerate(sheets))
        if len(sheets) > 1
        else tuple((said, place) for place, (_, said) in enumerate(_PERCENTILES))
    )
    return DrawnPlot(plot, (("", svg.bars(plot, groups, log=True)),), legend, tuple(rows))


def _events(sheets: Sequence[RunSheet]) -> DrawnPlot:
    plot = Plot(
        "events", "Disruptions and churn", "Pods taken from their nodes, and nodes that came and went.", "times"
    )
    return _counted(plot, sheets, [{**_named(sheet, "disruptions"), **_named(sheet, "churn")} for sheet in sheets])


def _reasons(sheets: Sequence[RunSheet]) -> DrawnPlot:
    plot = Plot("decisions", "Decisions by reason", "What the loops announced, the most frequent first.", "times")
    return _counted(plot, sheets, [_named(sheet, "decisions") for sheet in sheets])


def _counted(plot: Plot, sheets: Sequence[RunSheet], counts: Sequence[Mapping[str, int]]) -> DrawnPlot:
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    names = [name for name, _ in by_count(total)][:_MOST_REASONS]
    groups = [
        BarGroup(
            name,
            tuple(
                Bar(sheet.label, float(own.get(name, 0)), f"{own.get(name, 0):,}", number)
                for number, (sheet, own) in enumerate(zip(sheets, counts, strict=True))
            ),
        )
        for name in names
    ]
    rows = [("what", *(sheet.label for sheet in sheets)), *((g.name, *(bar.said for bar in g.bars)) for g in groups)]
    legend = tuple((sheet.label, number) for number, sheet in enumerate(sheets))
    return DrawnPlot(plot, (("", svg.lying_bars(plot, groups)),), legend, tuple(rows))


def _named(sheet: RunSheet, part: str) -> dict[str, int]:
    return dict(by_count(sheet.scores.get(part, {})))


def _summed_cost(series: Mapping[str, Any]) -> list[float]:
    total, found = 0.0, []
    for price in series["costPerHour"]:
        total += price * series["width"] / _HOUR
        found.append(round(total, 6))
    return found


def _series(sheet: RunSheet) -> Mapping[str, Any]:
    series: Mapping[str, Any] = sheet.scores["series"]
    return series
