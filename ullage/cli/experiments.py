"""Shared by `simulate` and `replay`: run experiments, show their progress and report their results."""

import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ullage import __version__
from ullage.cli.output_file import check_writable, write_whole
from ullage.cli.progress import ProgressDisplay, shown
from ullage.cli.table import aligned
from ullage.observe.log import configure

if TYPE_CHECKING:
    from ullage.sim.experiment.run import PreparedRun, RunOutcome
    from ullage.sim.experiment.run_spec import RunSpec

MOST_WIDE = 110
"""Letters of a line of the headline."""
MOST_ACROSS = 80
"""Letters of all labels; runs with more are shown one a line."""
_BROKEN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOutput:
    """Output of results: format, report file, comparison and replay file."""

    output: str = "table"
    report: str | None = None
    compare: bool = False
    replay_file: str = "ullage-violation.json"
    quiet: bool = False
    command: str = ""
    """Command line of the report."""

    def check(self) -> None:
        """Check before the runs that the report can be written. Raises UserError."""
        if self.report is not None:
            check_writable(Path(self.report), "--report")

    @property
    def about(self) -> dict[str, str]:
        return {"version": __version__, "command": self.command}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLocation:
    """Place where runs are computed: local processes, or a Ray cluster."""

    processes: int | None = None
    ray: str | None = None

    def processes_for(self, runs: int) -> int:
        return min(runs, self.processes or os.cpu_count() or 1)


def common_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options both verbs have."""
    options = (
        click.option("--settings", "settings_file", metavar="FILE", help="Settings; see `ullage config show`."),
        click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same report, to the byte."),
        click.option(
            "--output",
            "-o",
            type=click.Choice(("table", "json")),
            default="table",
            show_default=True,
            help="For whom to print.",
        ),
        click.option("--report", metavar="FILE", help="Also write a page with plots, one HTML file."),
        click.option(
            "--invariants/--no-invariants",
            default=True,
            show_default=True,
            help="Check after every write that what must always hold does.",
        ),
        click.option(
            "--violation-file",
            metavar="FILE",
            default="ullage-violation.json",
            show_default=True,
            help="Where to write how to replay a run in which something that must always hold did not.",
        ),
        click.option("--quiet", "-q", is_flag=True, help="Do not show how far it is."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def run_and_show(recipes: "Sequence[RunSpec]", where: RunLocation, showing: ResultOutput) -> None:
    """Run them all, then print and write what was asked for. Exits with 1 where something broke."""
    _hush()
    showing.check()
    with shown([recipe.label for recipe in recipes], quiet=showing.quiet) as display:
        outcomes = _run(recipes, where, showing.compare, display)
    show(outcomes, showing)


def show_one(run: "PreparedRun", showing: ResultOutput) -> None:
    """Run and report one prepared run."""
    from ullage.sim.experiment.run import play

    _hush()
    showing.check()
    with shown([run.label], quiet=showing.quiet) as display:
        outcome = play(run, on_progress=display.far)
    show([outcome], showing)


def _hush() -> None:
    """Silence the loops' logs unless asked for: simulated loops log thousands of times as fast as live ones."""
    root = click.get_current_context().find_root()
    if root.get_parameter_source("log_level") in (None, ParameterSource.DEFAULT):
        configure(level="error")


def _run(
    recipes: "Sequence[RunSpec]", where: RunLocation, keep_steps: bool, display: ProgressDisplay
) -> "list[RunOutcome]":
    def done(place: int, _: "RunOutcome") -> None:
        display.done(recipes[place].label)

    if where.ray is not None:
        from ullage.sim.experiment.ray_workers import run_on_ray

        return run_on_ray(where.ray, recipes, keep_steps=keep_steps, on_done=done)
    from ullage.sim.experiment.workers import run_all

    processes = where.processes_for(len(recipes))
    return run_all(recipes, processes=processes, keep_steps=keep_steps, on_progress=display.far, on_done=done)


def show(outcomes: "Sequence[RunOutcome]", showing: ResultOutput) -> None:
    """Print and write. Exits with 1 where something broke."""
    from ullage.sim.report.comparison import compared

    broken = [outcome for outcome in outcomes if outcome.violation is not None]
    if broken:
        _print_violation(broken[0], showing.replay_file)
    sheets = [outcome.sheet for outcome in outcomes]
    differences = compared(sheets, [outcome.steps for outcome in outcomes]) if showing.compare else []
    if showing.report is not None:
        from ullage.sim.report.page import page

        _write(showing.report, page(sheets, differences, showing.about), "--report")
    if showing.output == "json":
        click.echo(as_json(outcomes, differences, showing.about))
    else:
        click.echo("\n".join(as_lines(outcomes, differences)))
    if broken:
        raise click.exceptions.Exit(_BROKEN)


def as_json(outcomes: "Sequence[RunOutcome]", differences: Sequence[Any], about: Mapping[str, str]) -> str:
    """Results as JSON, for programs."""
    import json

    from ullage.sim.report.document import document

    whole = document([outcome.sheet for outcome in outcomes], differences, about)
    for run, outcome in zip(whole["runs"], outcomes, strict=True):
        run["violation"] = _violation(outcome)
    return json.dumps(whole, indent=2, sort_keys=True)


def as_lines(outcomes: "Sequence[RunOutcome]", differences: Sequence[Any]) -> list[str]:
    """Results as lines of text, for people."""
    from ullage.sim.report import text
    from ullage.sim.report.headline import headline

    sheets = [outcome.sheet for outcome in outcomes]
    said = [*textwrap.wrap(headline(sheets), MOST_WIDE), ""]
    rows = text.summary(sheets)
    if sum(map(len, rows[0][1:])) > MOST_ACROSS:
        return [*said, *aligned(text.turned(rows)), *text.differences(differences), "", *aligned(text.notes(sheets))]
    lines = [*said, *aligned(rows)]
    if len(sheets) == 1:
        lines += ["", *aligned(text.waiting(sheets[0])), "", *aligned(text.reasons(sheets[0]))]
    if differences:
        lines += ["", *text.differences(differences)]
    return [*lines, "", *aligned(text.notes(sheets))]


def _violation(outcome: "RunOutcome") -> dict[str, Any] | None:
    found = outcome.violation
    return None if found is None else {"sentence": found.sentence, "at": found.at, "story": list(found.story)}


def _print_violation(outcome: "RunOutcome", path: str) -> None:
    found = outcome.violation
    if found is None:
        return
    _write(path, found.replay, "--violation-file")
    click.echo(f"{outcome.sheet.label}: broken after {found.at:.3f} s: {found.sentence}", err=True)
    for line in found.story:
        click.echo(f"  {line}", err=True)
    click.echo(f"it can be seen again with: ullage replay {path}", err=True)


def _write(path: str, text: str | bytes, option: str) -> None:
    write_whole(Path(path), text.encode() if isinstance(text, str) else text, option)
