"""`ullage simulate`: a workload on a fleet under a policy, in virtual time, with the live loops."""

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ullage.cli.experiments import ResultOutput, RunLocation, common_options, run_and_show
from ullage.cli.setting_options import read_length
from ullage.cli.typed_command import typed_command
from ullage.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ullage.config.settings import Settings
    from ullage.sim.experiment.run_spec import RunSpec
    from ullage.sim.fleet.fleet import SimulatedFleet
    from ullage.sim.workload.job import Workload

FORMATS = ("auto", "openb", "csv", "jsonl", "swf", "synthetic")
_MOST_LISTED = 5

EXAMPLES = """\b
Examples:
  ullage simulate --workload synthetic --fleet '16*8xH100' --seed 7
  ullage simulate --workload jobs.csv --fleet pools.yaml --settings policy.yaml --report out.html
  ullage simulate --workload jobs.csv --fleet nodes.csv --compare fragmentation packing mine.yaml
  ullage simulate --workload synthetic --fleet '16*8xH100' --compare fragmentation packing --seeds 5
  ullage simulate --workload jobs.csv --fleet nodes.csv --sweep simulation.load=1,1.5,2 --sweep seed=1,2,3
"""


@click.command("simulate", epilog=EXAMPLES)
@click.option(
    "--workload",
    required=True,
    metavar="FILE",
    help="What arrives: a list with openb's columns, a CSV or JSON lines of arrivals and durations, a file in the "
    "Standard Workload Format, a YAML file that tells the generator what to make, or `synthetic`.",
)
@click.option(
    "--workload-format",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="What format that is; by default its name and header tell.",
)
@click.option(
    "--fleet",
    "fleets",
    multiple=True,
    required=True,
    metavar="FILE|N*BOARD",
    help="What there is to run it on: a list of nodes, manifests (NodeProvisioners, Nodes, quotas), or a word such as "
    "16*8xH100. May be repeated.",
)
@click.option(
    "--bad-rows",
    type=click.Choice(("stop", "skip")),
    default="stop",
    show_default=True,
    help="What to do about rows of lists that make no sense.",
)
@click.option(
    "--unknown-columns",
    type=click.Choice(("stop", "ignore")),
    default="stop",
    show_default=True,
    help="What to do about columns of lists that mean nothing here.",
)
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="Take only the first N jobs.")
@click.option(
    "--duration", metavar="DURATION", help="Simulated time to end after, such as 7d. Default: when all is over."
)
@click.option(
    "--compare", is_flag=True, help="Run each POLICY on the same seed, and say which differs where from the first."
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="KEY=VALUE,...",
    help="Run every value of a setting, or of `seed`. Several make a grid. May be repeated.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=1,
    metavar="N",
    help="Run everything with N seeds, from --seed on, and give means with 95 % intervals.",
)
@click.option(
    "--jobs", "processes", type=click.IntRange(min=1), metavar="N", help="Runs at once. Default: as many as cores."
)
@click.option(
    "--ray", metavar="ADDRESS", help="Run on this Ray cluster (`auto`, or HOST:PORT) instead of on this machine."
)
@common_options
@click.argument("policies", nargs=-1, metavar="[POLICY]...")
def command(policies: tuple[str, ...], **options: Any) -> None:
    """Try a policy on a workload before you pay for it.

    Runs the scheduler, the provisioner and the drain loop as they are, on a simulated cluster in virtual time. A POLICY
    (with --compare) is a settings file, or the name of a GPU policy: fragmentation, best-fit, packing, spread, random.
    """
    recipes = _recipes(policies, options)
    where = RunLocation(processes=options["processes"], ray=options["ray"])
    showing = ResultOutput(
        output=options["output"],
        report=options["report"],
        compare=options["compare"],
        replay_file=options["violation_file"],
        quiet=options["quiet"],
        command=typed_command(),
    )
    run_and_show(recipes, where, showing)


def _recipes(policies: tuple[str, ...], options: dict[str, Any]) -> "list[RunSpec]":
    from ullage.config.loading import load_settings
    from ullage.config.settings import Settings
    from ullage.sim.experiment.grid import grid, read_axis

    _check_asked(policies, options)
    base = Settings() if options["settings_file"] is None else load_settings(options["settings_file"])
    if options["sweeps"]:
        axes = [read_axis(text) for text in options["sweeps"]]
        cells = [_Cell(one.label, one.group, one.settings, one.seed) for one in grid(base, axes, options["seed"])]
    elif policies:
        cells = [_Cell(label, label, settings, options["seed"]) for label, settings in named_policies(policies, base)]
    else:
        label = base.scheduling.policy if options["settings_file"] is None else stem(options["settings_file"])
        cells = [_Cell(label, label, base, options["seed"])]
    return _with_workloads([one for cell in cells for one in cell.with_seeds(options["seeds"])], options)


class _Cell(NamedTuple):
    """A run to make: its label, that of all its seeds, its settings and its seed."""

    label: str
    group: str
    settings: "Settings"
    seed: int

    def with_seeds(self, count: int) -> "list[_Cell]":
        if count == 1:
            return [self]
        seeds = range(self.seed, self.seed + count)
        return [self._replace(label=f"{self.label} seed={seed}", seed=seed) for seed in seeds]


def _check_asked(policies: tuple[str, ...], options: dict[str, Any]) -> None:
    if policies and not options["compare"]:
        raise UserError(f"{policies[0]}: policies are named after --compare; one alone is given with --settings")
    if options["compare"] and len(policies) < 2:
        raise UserError("--compare: name at least two policies, such as: --compare packing spread")
    if options["seeds"] > 1 and any(text.startswith("seed=") for text in options["sweeps"]):
        raise UserError("--seeds and --sweep seed=...: give one of them")
    if options["compare"] and options["sweeps"]:
        raise UserError("--compare and --sweep: give one of them; a sweep of scheduling.policy compares, too")


def named_policies(names: "Sequence[str]", base: "Settings") -> "list[tuple[str, Settings]]":
    """Settings by label: files, or names of GPU policies on top of `base`. No two labels are equal."""
    from pathlib import Path

    from ullage.config.loading import load_settings, override
    from ullage.config.values import meant
    from ullage.model.scoring import ScoringPolicy

    found: list[tuple[str, Settings]] = []
    for name in names:
        if name in list(ScoringPolicy) and not Path(name).exists():
            label, settings = name, override(base, "scheduling.policy", name, "--compare")
        elif not Path(name).exists():
            near = meant(name, tuple(ScoringPolicy))
            allowed = ", ".join(ScoringPolicy)
            raise UserError(f"--compare {name}: no such settings file, and no policy{near or ';'} policies: {allowed}")
        else:
            label, settings = stem(name), load_settings(name)
        taken = sum(one == label or one.startswith(f"{label} (") for one, _ in found)
        found.append((f"{label} ({taken + 1})" if taken else label, settings))
    return found


def stem(path: str) -> str:
    """Return a file's name in reports: without folder and ending, so that reports do not depend on its folder."""
    from pathlib import Path

    return Path(path).stem


def _with_workloads(cells: "list[_Cell]", options: dict[str, Any]) -> "list[RunSpec]":
    """Each seed has its own workload where that is made up; else all share one."""
    from ullage.sim.experiment.feasibility import possible
    from ullage.sim.experiment.run_spec import RunSpec
    from ullage.sim.fleet.reading import read_fleet
    from ullage.sim.workload.manifests import PodOptions
    from ullage.sim.workload.table_reader import BadRows

    duration = None if options["duration"] is None else read_length(options["duration"], "--duration")
    bad_rows = BadRows(options["bad_rows"])
    fleet = read_fleet(options["fleets"], bad_rows=bad_rows, ignore_unknown=options["unknown_columns"] == "ignore")
    manner = PodOptions(share_of=fleet.share_of)
    workloads = {
        seed: possible(_workload(options, seed, bad_rows), fleet, manner)
        for seed in dict.fromkeys(cell.seed for cell in cells)
    }
    _print_fleet(fleet, next(iter(workloads.values())))
    _print_impossible(tuple(workloads.values()))
    return [
        RunSpec(
            label=cell.label,
            group=cell.group,
            workload=workloads[cell.seed],
            fleet=fleet,
            settings=cell.settings,
            seed=cell.seed,
            duration=duration,
            invariants=options["invariants"],
        )
        for cell in cells
    ]


def _workload(options: dict[str, Any], seed: int, bad_rows: Any) -> "Workload":
    from ullage.sim.workload.reading import read_workload

    return read_workload(
        options["workload"],
        form=options["workload_format"],
        seed=seed,
        bad_rows=bad_rows,
        ignore_unknown=options["unknown_columns"] == "ignore",
        most=options["first"],
    )


def _print_fleet(fleet: "SimulatedFleet", workload: "Workload") -> None:
    """Print skipped rows and warnings to standard error."""
    _some((*fleet.skipped, *workload.skipped), "left out", "rows")
    for warning in fleet.warnings:
        click.echo(f"warning: {warning}", err=True)


def _print_impossible(workloads: "tuple[Workload, ...]") -> None:
    """Name jobs that can never run, before the run starts."""
    sentences = tuple(dict.fromkeys(one for workload in workloads for one in workload.impossible))
    _some(sentences, "can never run, left out", "kinds of jobs")


def _some(lines: "Sequence[str]", what: str, things: str) -> None:
    for line in lines[:_MOST_LISTED]:
        click.echo(f"{what}: {line}", err=True)
    if len(lines) > _MOST_LISTED:
        click.echo(f"{what}: {len(lines) - _MOST_LISTED} more {things}", err=True)
