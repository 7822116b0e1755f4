"""Report as one HTML page: self-contained, light and dark, with a table below every plot."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from ullage.sim.report import plots, text
from ullage.sim.report.document import document
from ullage.sim.report.headline import headline
from ullage.sim.report.intervals import RunGroup, grouped
from ullage.sim.report.run_sheet import RunSheet
from ullage.sim.report.style import STYLE
from ullage.sim.report.svg import dashes

Rows = Sequence[Sequence[str]]
_MARKS = "≥ marks lower bounds: pods that never ran are counted with the time they waited. Shaded below: steady state."


def page(
    sheets: Sequence[RunSheet], compared: Sequence[Mapping[str, Any]], about: Mapping[str, str] | None = None
) -> str:
    """Whole document. Of runs that differ in nothing but the seed, the first is drawn."""
    groups = grouped(sheets)
    shown = [replace(group.sheets[0], label=group.label) for group in groups]
    title = "Simulation: " + ", ".join(group.label for group in groups)
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="headline">{escape(headline(sheets))}</p>',
        *_section("summary", "Summary", _MARKS, text.summary(sheets)),
        *_differences(compared),
        *_about(groups, about or {}),
        *(part for made in plots.all_plots(shown) for part in _plot(made, shown)),
        *_waiting_tables(shown),
    ]
    data = document(sheets, compared, about or {})
    written = json.dumps(data, sort_keys=True, separators=(",", ":")).replace("</", "<\\/")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            "</head>",
            "<body><main>",
            *body,
            f'<script type="application/json" id="report">{written}</script>',
            "</main></body>",
            "</html>",
            "",
        ]
    )


def _about(groups: Sequence[RunGroup], about: Mapping[str, str]) -> list[str]:
    sheets = [group.sheets[0] for group in groups]
    rows: list[tuple[str, ...]] = [("", *(group.label for group in groups))]
    rows.append(("seeds", *(", ".join(map(str, group.seeds)) for group in groups)))
    for part in ("workload", "fleet"):
        names = dict.fromkeys(key for sheet in sheets for key in getattr(sheet, part))
        rows += [(f"{part}: {name}", *(str(getattr(sheet, part).get(name, "")) for sheet in sheets)) for name in names]
    paths = sorted({path for sheet in sheets for path in sheet.settings})
    rows += [(path, *(text.setting(sheet.settings.get(path)) for sheet in sheets)) for path in paths]
    said = f"ullage {about['version']}: {about['command']}" if about.get("command") else ""
    return _section("about", "What was run", said, rows)


def _differences(compared: Sequence[Mapping[str, Any]]) -> list[str]:
    if not compared:
        return []
    lines = "\n".join(escape(line) for line in text.differences(compared))
    return [
        '<section aria-labelledby="differences"><h2 id="differences">Who differs where</h2>',
        f"<pre>{lines}</pre></section>",
    ]


def _plot(made: plots.DrawnPlot, sheets: Sequence[RunSheet]) -> list[str]:
    legend = "".join(
        f'<li><svg class="key" viewBox="0 0 24 8" aria-hidden="true"><path class="line c{colour}"{dashes(colour)} '
        f'd="M0 4H24"/></svg>{escape(name)}</li>'
        for name, colour in made.legend
    )
    return [
        f'<section aria-labelledby="{made.plot.id}"><h2 id="{made.plot.id}">{escape(made.plot.title)}</h2>',
        f"<p>{escape(made.plot.description)}</p>",
        f'<ul class="legend">{legend}</ul>' if len(made.legend) > 1 or len(sheets) > 1 else "",
        *_charts(made),
        f"<details><summary>Figures of this plot</summary>{table(made.rows)}</details></section>",
    ]


def _charts(made: plots.DrawnPlot) -> list[str]:
    if len(made.charts) == 1:
        return [f"<figure>{made.charts[0][1]}</figure>"]
    figures = (f"<figure><figcaption>{escape(name)}</figcaption>{drawn}</figure>" for name, drawn in made.charts)
    return ['<div class="panels">', *figures, "</div>"]


def _waiting_tables(sheets: Sequence[RunSheet]) -> list[str]:
    parts: list[str] = []
    for number, sheet in enumerate(sheets):
        parts += _section(f"waiting-{number}", f"Waiting times: {sheet.label}", "", text.waiting(sheet))
    return parts


def _section(name: str, title: str, said: str, rows: Rows) -> list[str]:
    return [
        f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>',
        f"<p>{escape(said)}</p>" if said else "",
        table(rows),
        "</section>",
    ]


def table(rows: Rows) -> str:
    """HTML table with a header row; the first column names each row."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in rows[0])
    lines = [
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in rows[1:]
    ]
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
