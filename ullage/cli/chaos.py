"""`ullage chaos`: seeded faults on a simulated cluster with every loop, and the promises checked after every write."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.output_file import write_whole
from ullage.errors import UserError

if TYPE_CHECKING:
    from ullage.sim.chaos.coverage import FaultCoverage
    from ullage.sim.chaos.run import ChaosResult
    from ullage.sim.chaos.story import ChaosStory

EXAMPLES = """\b
Examples:
  ullage chaos --seeds 60
  ullage chaos --seeds 1000 --first 5000 --processes 2
  ullage chaos --seeds 200 --coverage
  ullage chaos --seeds 200 --fail-fast
  ullage chaos --replay chaos-57.json
"""


@click.command("chaos", epilog=EXAMPLES)
@click.option("--seeds", type=click.IntRange(1), default=20, show_default=True, help="Number of stories to play.")
@click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="First seed.")
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Stories played at once.")
@click.option("--replay", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Play this story file.")
@click.option("--fail-fast", is_flag=True, help="End at the first story that fails, and do not cut it down.")
@click.option("--coverage", is_flag=True, help="List pairs of call site and fault that never met.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Folder for stories that fail.",
)
def command(seeds: int, first: int, processes: int, replay: Path | None, **options: Any) -> int:
    """Play stories of jobs and faults on a simulated cluster. Exits with 1 if a promise is broken.

    A failing story is cut down, printed, and written to chaos-SEED.json, which --replay plays again.
    """
    from ullage.sim.chaos.coverage import FaultCoverage
    from ullage.sim.chaos.story import read_story

    if replay is not None:
        return _replayed(read_story(replay.read_bytes(), str(replay)))
    output: Path = options["output"]
    _made(output)
    met, failed = FaultCoverage(), 0
    for number, result in enumerate(_results(range(first, first + seeds), processes), 1):
        met.add(result.coverage)
        if result.failure is not None and options["fail_fast"]:
            click.echo(f"seed {result.story.seed}: {result.failure.rule}: {result.failure.sentence}")
            return 1
        if result.failure is not None:
            failed += 1
            _report(result, output)
        if number % 20 == 0 and number < seeds:
            click.echo(f"{number} of {seeds} stories, {failed} failed, {sum(met.injected.values())} faults", err=True)
    click.echo(f"{seeds} stories, {failed} failed, {sum(met.injected.values())} faults injected:")
    for kind, count in sorted(met.injected.items(), key=lambda item: (-item[1], item[0])):
        click.echo(f"  {count:6}  {kind}")
    if options["coverage"]:
        _print_coverage(met)
    return 1 if failed else 0


def _made(folder: Path) -> None:
    """Make the folder for stories before the first one is played: they take long."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--output {folder}: {error.strerror}; choose a folder you can write to") from error


def _results(seeds: range, processes: int) -> "Iterator[ChaosResult]":
    if processes == 1:
        yield from map(_play_seed, seeds)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_play_seed, seeds)


def _play_seed(seed: int) -> "ChaosResult":
    from ullage.sim.chaos.generate import generated_story
    from ullage.sim.chaos.run import play

    return play(generated_story(seed))


def _replayed(story: "ChaosStory") -> int:
    from ullage.sim.chaos.run import play
    from ullage.sim.chaos.story import story_in_lines

    click.echo("\n".join(story_in_lines(story)))
    failure = play(story).failure
    if failure is None:
        click.echo("every promise was kept")
        return 0
    click.echo(f"broken at {failure.at:.1f} s: {failure.rule}\n  {failure.sentence}")
    click.echo("\n".join(failure.history))
    return 1


def _report(result: "ChaosResult", output: Path) -> None:
    from ullage.sim.chaos.run import play
    from ullage.sim.chaos.shrink import shrunk
    from ullage.sim.chaos.story import story_in_lines, write_story

    failure, story = result.failure, result.story
    if failure is None:
        return
    click.echo(f"seed {story.seed}: {failure.rule}: {failure.sentence}")
    rule = failure.rule
    story = shrunk(story, lambda one: (found := play(one).failure) is not None and found.rule == rule).story
    failure = play(story).failure or failure
    path = output / f"chaos-{story.seed}.json"
    write_whole(path, write_story(story, f"{failure.rule}: {failure.sentence}"), "--output")
    click.echo("\n".join(f"  {line}" for line in story_in_lines(story)))
    click.echo(f"  again: ullage chaos --replay {path}")


def _print_coverage(met: "FaultCoverage") -> None:
    from ullage.sim.chaos.coverage import verb_of
    from ullage.sim.chaos.network import POSSIBLE

    missing = list(met.missing(1, POSSIBLE))
    pairs = sum(len(POSSIBLE[verb_of(site)]) for site in met.calls)
    click.echo(f"{pairs - len(missing)} of {pairs} pairs of call site and fault met; never:")
    for site, kind, _ in missing:
        click.echo(f"  {site}: {kind}")
