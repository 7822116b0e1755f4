"""Plots as inline SVG: lines over time and bars. Each has a title and a description; colours are classes of the page.

Lines also differ by dashes and bars by position, so that colours need not be told apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ullage.sim.report.axes import PlotAxis, linear, logarithmic_time, spoken, spoken_time, time_axis

WIDTH, HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 40
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "1 4", "12 4", "5 2 1 2", "3 6")
COLOURS = len(_DASHES)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot: values at equal distances in time."""

    name: str
    values: Sequence[float]
    width: float
    """Seconds between two values."""
    colour: int = 0
    stepped: bool = False
    faint: bool = False
    """True for a line that is only a reference."""


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: float
    said: str
    colour: int = 0


@dataclass(frozen=True, slots=True)
class BarGroup:
    """Bars that are drawn side by side."""

    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """Texts of a plot: id, title, description and unit."""

    id: str
    title: str
    description: str
    unit: str


def dashes(colour: int) -> str:
    """Dash pattern of a colour's lines, as an SVG attribute."""
    dash = _DASHES[colour % COLOURS]
    return f' stroke-dasharray="{dash}"' if dash else ""


def axes_of(drawn: Sequence[Line]) -> tuple[PlotAxis, PlotAxis]:
    """Axes that all these lines fit on: time, and values."""
    across = time_axis(max((len(one.values) * one.width for one in drawn), default=1.0))
    return across, linear(max((value for one in drawn for value in one.values), default=0.0))


def lines(
    plot: Plot,
    drawn: Sequence[Line],
    axes: tuple[PlotAxis, PlotAxis] | None = None,
    window: tuple[float, float] | None = None,
) -> str:
    """Lines over simulated time, on these axes or on their own. `window` is shaded: the steady state."""
    across, up = axes or axes_of(drawn)
    parts = [*_shade(window, across), *_frame(up, plot.unit), *_time_marks(across)]
    for one in drawn:
        look = f'class="line c{one.colour % COLOURS}{" faint" if one.faint else ""}"'
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in _points(one, across, up))
        parts.append(
            f'<polyline {look}{dashes(one.colour)} points="{points}"><title>{escape(one.name)}</title></polyline>'
        )
    return _svg(plot, HEIGHT, parts)


def bars(plot: Plot, groups: Sequence[BarGroup], *, log: bool = False) -> str:
    """Vertical bars, in groups."""
    values = [bar.value for group in groups for bar in group.bars]
    up = logarithmic_time(values) if log else linear(max(values, default=0.0))
    parts, inner = _frame(up, plot.unit), WIDTH - _LEFT - _RIGHT
    slot = inner / max(1, len(groups))
    for place, group in enumerate(groups):
        thick = slot * 0.8 / max(1, len(group.bars))
        for number, bar in enumerate(group.bars):
            x = _LEFT + slot * place + slot * 0.1 + thick * number
            tall = max(up.at(bar.value), 0.0) * (HEIGHT - _TOP - _BOTTOM)
            parts.append(
                f'<rect class="bar c{bar.colour % COLOURS}" x="{x:.1f}" y="{HEIGHT - _BOTTOM - tall:.1f}" '
                f'width="{max(thick - 1, 1):.1f}" height="{tall:.1f}">'
                f"<title>{escape(f'{group.name}, {bar.name}: {bar.said}')}</title></rect>"
            )
        parts.append(_label(_LEFT + slot * (place + 0.5), HEIGHT - 22, group.name, "middle"))
    return _svg(plot, HEIGHT, parts)


def lying_bars(plot: Plot, groups: Sequence[BarGroup]) -> str:
    """Horizontal bars with their names and values beside them: for long names."""
    across = linear(max((bar.value for group in groups for bar in group.bars), default=0.0))
    parts: list[str] = []
    label, thick, y = 220, 14, _TOP
    for group in groups:
        tall = thick * len(group.bars)
        parts.append(_label(label - 8, y + tall / 2 + 4, group.name, "end"))
        for bar in group.bars:
            long = across.at(bar.value) * (WIDTH - label - 90)
            parts.append(
                f'<rect class="bar c{bar.colour % COLOURS}" x="{label}" y="{y}" width="{max(long, 0.5):.1f}" '
                f'height="{thick - 2}"><title>{escape(f"{group.name}, {bar.name}: {bar.said}")}</title></rect>'
            )
            parts.append(_label(label + long + 5, y + thick - 4, bar.said, "start"))
            y += thick
        y += 6
    return _svg(plot, y + 6, parts)


def _svg(plot: Plot, height: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg role="img" viewBox="0 0 {WIDTH} {height}" aria-labelledby="{plot.id}-t {plot.id}-d">'
        f'<title id="{plot.id}-t">{escape(plot.title)}</title><desc id="{plot.id}-d">{escape(plot.description)}</desc>'
    )
    return "\n".join([head, *parts, "</svg>"])


def _frame(up: PlotAxis, unit: str) -> list[str]:
    bottom, parts = HEIGHT - _BOTTOM, []
    for mark in up.marks:
        y = bottom - up.at(mark) * (bottom - _TOP)
        said = spoken_time(mark) if unit == "time" else spoken(mark)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_label(_LEFT - 6, y + 4, said, "end"))
    if unit != "time":
        parts.append(f'<g transform="translate(12 {HEIGHT / 2}) rotate(-90)">{_label(0, 0, unit, "middle")}</g>')
    return parts


def _shade(window: tuple[float, float] | None, across: PlotAxis) -> list[str]:
    if window is None:
        return []
    left, right = (_LEFT + across.at(min(one, across.high)) * (WIDTH - _LEFT - _RIGHT) for one in window)
    return [
        f'<rect class="steady" x="{left:.1f}" y="{_TOP}" width="{max(0.0, right - left):.1f}" '
        f'height="{HEIGHT - _TOP - _BOTTOM}"><title>steady state</title></rect>'
    ]


def _time_marks(across: PlotAxis) -> list[str]:
    parts = []
    for mark in across.marks:
        x = _LEFT + across.at(mark) * (WIDTH - _LEFT - _RIGHT)
        parts.append(
            f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{HEIGHT - _BOTTOM}" y2="{HEIGHT - _BOTTOM + 5}"/>'
        )
        parts.append(_label(x, HEIGHT - 22, spoken_time(mark) if mark else "0", "middle"))
    return parts


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="mark" text-anchor="{anchor}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _points(line: Line, across: PlotAxis, up: PlotAxis) -> list[tuple[float, float]]:
    """Points of a line: the middle of each span of time, or both its ends if the value holds that long."""
    found: list[tuple[float, float]] = []
    tall, inner = HEIGHT - _TOP - _BOTTOM, WIDTH - _LEFT - _RIGHT
    for place, value in enumerate(line.values):
        y = HEIGHT - _BOTTOM - up.at(value) * tall
        moments = (place, place + 1) if line.stepped else (place + 0.5,)
        found += [(_LEFT + across.at(min(moment * line.width, across.high)) * inner, y) for moment in moments]
    return found
