"""Line charts and strips of time as SVG: two in a row, a legend below each, days on the axis. Pure: text of data."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

DAY = 86_400.0
COLOURS = ("#3f7dd1", "#d9822b", "#3fa45b", "#c23b5a", "#8a5fbf", "#7b8794", "#b8a100", "#17a2a2")
WIDTH, HEIGHT, MARGIN, LEGEND = 460, 170, 46, 47
LETTER = 6.6
"""Width of a letter of the legend, rather too wide than too narrow."""
BAD = {"critical": "#c23b5a", "warning": "#d9822b", "info": "#3f7dd1"}
UNITS = {"s": " s", "percent": " %", "ops": "/s", "short": ""}


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its name, and points of time and value."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Chart:
    """One graph."""

    title: str
    unit: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Strip:
    """Moments at which something held, as a strip."""

    title: str
    severity: str
    moments: Sequence[float]
    step: float


def charts_sheet(charts: Sequence[Chart], seconds: float, note: str) -> str:
    """All graphs on one sheet, two in a row."""
    cell_width, cell_height = WIDTH + 24, HEIGHT + LEGEND + 40
    rows = (len(charts) + 1) // 2
    parts = [
        f'<g transform="translate({(place % 2) * cell_width},{(place // 2) * cell_height})">{_chart(one, seconds)}</g>'
        for place, one in enumerate(charts)
    ]
    return _sheet(2 * cell_width, rows * cell_height, parts, note)


def strips_sheet(strips: Sequence[Strip], seconds: float, note: str) -> str:
    """All strips on one sheet, one below the other."""
    parts = [_strip(one, seconds, 24 * place + 6) for place, one in enumerate(strips)]
    parts.append(_days(seconds, 260, 24 * len(strips) + 20, 680))
    return _sheet(960, 24 * len(strips) + 34, parts, note)


def _sheet(width: int, height: int, parts: Sequence[str], note: str) -> str:
    style = "text{font:11px sans-serif;fill:#333}.t{font-weight:bold;font-size:12px}.g{stroke:#ddd}.n{fill:#888}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    back = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    return "\n".join([head, f"<desc>{escape(note)}</desc><style>{style}</style>{back}", *parts, "</svg>"]) + "\n"


def _chart(chart: Chart, seconds: float) -> str:
    top = max((value for line in chart.lines for _, value in line.points), default=0.0)
    high = _round_up(top)
    wide = WIDTH - MARGIN
    parts = [f'<text class="t" x="{MARGIN}" y="14">{escape(chart.title)}</text>']
    for part in range(3):
        y = 24 + HEIGHT - HEIGHT * part / 2
        said = f"{high * part / 2:g}{UNITS.get(chart.unit, '')}"
        parts.append(f'<line class="g" x1="{MARGIN}" x2="{WIDTH}" y1="{y:g}" y2="{y:g}"/>')
        parts.append(f'<text class="n" x="{MARGIN - 4}" y="{y + 4:g}" text-anchor="end">{said}</text>')
    for place, line in enumerate(chart.lines):
        colour = COLOURS[place % len(COLOURS)]
        for piece in unbroken(line.points):
            places = [(MARGIN + wide * at / seconds, 24 + HEIGHT - HEIGHT * value / high) for at, value in piece]
            parts.append(_drawn(places, colour))
    if not chart.lines:
        middle = f'x="{WIDTH / 2:g}" y="{24 + HEIGHT / 2:g}"'
        parts.append(f'<text class="n" {middle} text-anchor="middle">no series in a simulated week</text>')
    parts.append(_days(seconds, MARGIN, 24 + HEIGHT + 12, wide))
    parts.append(_legend(chart.lines))
    return "".join(parts)


def unbroken(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Points in pieces without a gap: a time without a value is shown as one."""
    step = min((later[0] - sooner[0] for sooner, later in pairwise(points)), default=0.0)
    pieces: list[list[tuple[float, float]]] = []
    for point in points:
        if pieces and point[0] - pieces[-1][-1][0] <= step * 1.5:
            pieces[-1].append(point)
        else:
            pieces.append([point])
    return pieces


def _drawn(places: Sequence[tuple[float, float]], colour: str) -> str:
    if len(places) == 1:
        return f'<circle cx="{places[0][0]:.1f}" cy="{places[0][1]:.1f}" r="1.2" fill="{colour}"/>'
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline fill="none" stroke="{colour}" stroke-width="1.2" points="{points}"/>'


def _legend(lines: Sequence[Line]) -> str:
    parts, x, y = [], float(MARGIN), 24 + HEIGHT + 28
    for place, line in enumerate(lines[:12]):
        name = escape(line.name or "value")
        if x + 14 + LETTER * len(name) > WIDTH + 20:
            x, y = float(MARGIN), y + 13
        parts.append(f'<rect x="{x:g}" y="{y - 8}" width="9" height="9" fill="{COLOURS[place % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 12:g}" y="{y}">{name}</text>')
        x += 22 + LETTER * len(name)
    return "".join(parts)


def _strip(strip: Strip, seconds: float, y: int) -> str:
    parts = [f'<text x="252" y="{y + 12}" text-anchor="end">{escape(strip.title)}</text>']
    parts.append(f'<rect x="260" y="{y}" width="680" height="16" fill="#eef1f4"/>')
    for began, ended in _spans(strip):
        x, wide = 260 + 680 * began / seconds, max(2.0, 680 * (ended - began) / seconds)
        parts.append(f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="16" fill="{BAD[strip.severity]}"/>')
    return "".join(parts)


def _spans(strip: Strip) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for at in strip.moments:
        if found and at - found[-1][1] <= strip.step * 1.5:
            found[-1] = (found[-1][0], at)
        else:
            found.append((at, at))
    return found


def _days(seconds: float, x: float, y: float, wide: float) -> str:
    days = int(seconds // DAY)
    return "".join(
        f'<text class="n" x="{x + wide * (day + 0.5) / days:.1f}" y="{y:g}" text-anchor="middle">day {day + 1}</text>'
        for day in range(days)
    )


def _round_up(value: float) -> float:
    """The next of 1, 2, 5 and their tenfolds; 1 for nothing."""
    if value <= 0:
        return 1.0
    size = 1e-9
    while True:
        for step in (1, 2, 5):
            if size * step >= value:
                return size * step
        size *= 10
