"""`ullage replay`: a dump of a live cluster goes on in the simulator, or a broken simulation is seen again."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.experiments import ResultOutput, RunLocation, common_options, run_and_show, show_one
from ullage.cli.setting_options import read_length
from ullage.cli.typed_command import typed_command
from ullage.errors import UserError

if TYPE_CHECKING:
    from ullage.config.settings import Settings
    from ullage.sim.experiment.run_spec import RunSpec
    from ullage.sim.workload.job import Workload
    from ullage.state.dump import Dump

_MOST_NAMED = 3
_DAY = "24h"

EXAMPLES = """\b
Examples:
  ullage dump -o state.json && ullage replay state.json --settings other.yaml --duration 6h
  ullage replay state.json --compare packing spread --pods-run 2h --report out.html
  ullage record -o story.json --duration 30m && ullage replay story.json
  ullage replay ullage-violation.json
"""


@click.command("replay", epilog=EXAMPLES)
@click.argument("file", metavar="FILE")
@click.argument("policies", nargs=-1, metavar="[POLICY]...")
@click.option(
    "--duration",
    metavar="DURATION",
    help="Simulated time to end after. Default: the length of a recording; 24h of a dump.",
)
@click.option(
    "--pods-run",
    metavar="DURATION",
    help="How long pods that end by themselves work, from their start. Default: until they are ended.",
)
@click.option("--workload", metavar="FILE", help="What arrives from then on; as for `ullage simulate`.")
@click.option("--compare", is_flag=True, help="Run each POLICY, and say which differs where from the first.")
@click.option("--jobs", "processes", type=click.IntRange(min=1), metavar="N", help="Runs at once. Default: cores.")
@common_options
def command(file: str, policies: tuple[str, ...], **options: Any) -> None:
    """Simulate what would have happened to a cluster with other settings.

    FILE is a dump of `ullage dump`: from that moment on the cluster goes on as a simulated one, with the live loops. Or
    a recording of `ullage record`: then what users and machines did is done again, too. Or the file a broken simulation
    left: then exactly that is run again. A POLICY is a settings file or the name of a GPU policy.
    """
    from ullage.sim.world.violation import is_replay

    try:
        text = Path(file).read_bytes()
    except OSError as error:
        raise UserError(f"{file}: {(error.strerror or 'cannot be read').lower()}; check the path") from error
    showing = ResultOutput(
        output=options["output"],
        report=options["report"],
        compare=options["compare"],
        replay_file=options["violation_file"],
        quiet=options["quiet"],
        command=typed_command(),
    )
    if is_replay(text):
        _see_again(file, text, options, showing)
    else:
        run_and_show(_recipes(file, text, policies, options), RunLocation(processes=options["processes"]), showing)


def _see_again(file: str, text: bytes, options: dict[str, Any], showing: ResultOutput) -> None:
    """The very run that broke; with --settings, with those instead of its own."""
    from dataclasses import replace

    from ullage.config.loading import load_settings
    from ullage.sim.experiment.run import PreparedRun
    from ullage.sim.world.violation import load_replay

    if options["compare"] or options["workload"]:
        raise UserError(f"{file}: is the file of a broken simulation; --compare and --workload are for dumps")
    spec, arrivals = load_replay(text)
    if options["settings_file"] is not None:
        settings = load_settings(options["settings_file"])
        spec = replace(
            spec,
            settings=settings,
        )
    spec = replace(spec, invariants=options["invariants"])
    show_one(PreparedRun(label=Path(file).stem, spec=spec, arrivals=arrivals), showing)


def _recipes(file: str, text: bytes, policies: tuple[str, ...], options: dict[str, Any]) -> "list[RunSpec]":
    from ullage.cli.simulate import named_policies, stem
    from ullage.config.loading import load_settings
    from ullage.config.settings import Settings
    from ullage.sim.experiment.from_dump import read_cluster

    if bool(policies) != options["compare"] or len(policies) == 1:
        raise UserError("--compare: name at least two policies, such as: --compare packing spread")
    dump = read_cluster(text, file)
    base = Settings() if options["settings_file"] is None else load_settings(options["settings_file"])
    label = "as it is" if options["settings_file"] is None else stem(options["settings_file"])
    cells = named_policies(policies, base) if policies else [(label, base)]
    _warn_of_lost(dump)
    _warn_of_others(dump, base)
    return [_recipe(dump, label, settings, options) for label, settings in cells]


def _recipe(dump: "Dump", label: str, settings: "Settings", options: dict[str, Any]) -> "RunSpec":
    from ullage.sim.experiment.from_dump import restored_fleet, restored_objects
    from ullage.sim.experiment.run_spec import RunSpec

    pods_run = None if options["pods_run"] is None else read_length(options["pods_run"], "--pods-run")
    return RunSpec(
        label=label,
        workload=_workload(options),
        fleet=restored_fleet(dump),
        settings=settings,
        seed=options["seed"],
        duration=_length(dump, options["duration"]),
        invariants=options["invariants"],
        restored=restored_objects(dump, pods_run),
        epoch=dump.taken_at,
        steps=dump.steps,
    )


def _length(dump: "Dump", said: str | None) -> float:
    if said is not None:
        return read_length(said, "--duration")
    return read_length(_DAY, "--duration") if dump.recorded_seconds is None else dump.recorded_seconds


def _workload(options: dict[str, Any]) -> "Workload":
    from ullage.sim.workload.job import Workload
    from ullage.sim.workload.reading import read_workload

    if options["workload"] is None:
        return Workload(jobs=())
    return read_workload(options["workload"], seed=options["seed"])


def _warn_of_lost(dump: "Dump") -> None:
    from ullage.sim.experiment.from_dump import on_no_node

    _warn(on_no_node(dump), "left out: their nodes are not in the file")


def _warn_of_others(dump: "Dump", settings: "Settings") -> None:
    from ullage.sim.experiment.from_dump import not_ours

    _warn(
        not_ours(dump, tuple(settings.scheduling.policies())),
        "wait for another scheduler, which nobody plays here; name it in scheduling.profiles to have them placed",
    )


def _warn(names: list[str], what: str) -> None:
    """Say something of these objects, a few of them by name; nothing without any."""
    if names:
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        click.echo(f"warning: {', '.join(names[:_MOST_NAMED])}{more}: {what}", err=True)
