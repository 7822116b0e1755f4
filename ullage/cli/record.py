"""`ullage record`: what users and machines do to a cluster, written down for the simulator."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.cli.output_file import write_whole
from ullage.cli.setting_options import read_length
from ullage.errors import UserError
from ullage.model.scoring import DEFAULT_SCHEDULER

if TYPE_CHECKING:
    from ullage.model.units import Instant
    from ullage.sim.recording.history import HistoryRecorder
    from ullage.state.cluster import ClusterState

SAVE_SECONDS = 60.0
"""The file is written this often, so that little is lost if the process is killed."""
MOST = 100_000

EXAMPLES = """\b
Examples:
  ullage record -o story.json --duration 30m
  ullage replay story.json
  ullage replay story.json --compare packing spread --report out.html
"""


@click.command("record", epilog=EXAMPLES)
@click.option("--output", "-o", required=True, metavar="FILE", help="Where to write; replaced in one step.")
@click.option("--duration", default="1h", show_default=True, metavar="DURATION", help="Length of the recording.")
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=MOST,
    show_default=True,
    metavar="N",
    help="End it after so many pods and other steps.",
)
@click.option(
    "--scheduler-name",
    "schedulers",
    multiple=True,
    default=(DEFAULT_SCHEDULER,),
    show_default=True,
    help="Pods of these schedulers are placed anew in a replay; those of others come where they were. May be repeated.",
)
@cluster_options
def command(output: str, kubeconfig: str | None, context: str | None, **options: Any) -> None:
    """Record a cluster's history: the state at first, then who came and went, which nodes and GPUs failed.

    Changes nothing in the cluster. `ullage replay FILE` plays it again, with these settings or others. Placements,
    purchases and evictions are not recorded: a replay makes its own. Ctrl-C ends it, with a file that can be played.
    """
    length = read_length(options["duration"], "--duration")
    if length <= 0:
        raise UserError("--duration: give a time above 0, such as 30m")
    writing = _File(Path(output), length)
    writing.check()
    asyncio.run(_record(ClusterChoice.of(kubeconfig, context), writing, options["schedulers"], options["most"]))


class _File:
    """File of the recording, and when it ends."""

    def __init__(self, path: Path, length: float) -> None:
        self.length = length
        self._path = path
        self._state: ClusterState | None = None
        self._taken_at: Instant | None = None

    def check(self) -> None:
        """Refuse a place that cannot be written to before an hour is spent. Raises UserError."""
        if self._path.is_dir() or not self._path.absolute().parent.is_dir():
            raise UserError(f"--output {self._path}: not a file in a folder that exists")
        if not self._path.exists():
            try:
                self._path.touch()
                self._path.unlink()
            except OSError as error:
                raise UserError(f"--output {self._path}: {error.strerror}; choose another folder") from error

    def begin(self, state: "ClusterState", taken_at: "Instant") -> None:
        self._state, self._taken_at = state, taken_at

    def save(self, history: "HistoryRecorder", seconds: float) -> int:
        """Write what is known so far. Returns the number of steps."""
        from ullage.model.units import Seconds
        from ullage.state.dump import dump

        if self._state is None or self._taken_at is None:
            raise UserError("nothing is recorded yet")
        found = history.recording()
        text = dump(
            self._state,
            now=self._taken_at,
            objects=found.objects,
            steps=tuple(one for one in found.steps if one.at <= seconds),
            recorded_seconds=Seconds(seconds),
        )
        write_whole(self._path, text + b"\n", "--output")
        for why, count in sorted(found.left_out.items()):
            click.echo(f"warning: {count} changes cannot be replayed: {why}", err=True)
        return len(found.steps)


async def _record(choice: ClusterChoice, file: _File, schedulers: tuple[str, ...], most: int) -> None:
    from ullage.clock import WallClock
    from ullage.kube.manifests.cluster_dump import read_objects
    from ullage.sim.recording.follow import follow
    from ullage.sim.recording.history import HistoryRecorder
    from ullage.watch.sources import read_cluster

    clock, stopped = WallClock(), asyncio.Event()
    async with AsyncExitStack() as open_:
        api = await open_.enter_async_context(choice.connected())
        began, taken_at = clock.steady(), clock.now()
        file.begin(await read_cluster(api), taken_at)
        objects = await read_objects(api, lambda text: click.echo(f"warning: {text}; it is left out", err=True))
        history = HistoryRecorder(objects, schedulers, taken_at)
        following = asyncio.create_task(follow(api, history, clock, began))
        for name in (signal.SIGTERM, signal.SIGINT):  # before this there is nothing to save, and Ctrl-C ends it at once
            asyncio.get_running_loop().add_signal_handler(name, stopped.set)
        click.echo(f"recording for {file.length:g} s; Ctrl-C ends it", err=True)
        try:
            why = await _until_over(file, history, most, stopped, following, lambda: clock.steady() - began)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        seconds = min(clock.steady() - began, file.length)
        count = file.save(history, seconds)
    click.echo(f"{why}: {count} steps in {seconds:.0f} s", err=True)


async def _until_over(
    file: _File,
    history: "HistoryRecorder",
    most: int,
    stopped: asyncio.Event,
    following: "asyncio.Task[None]",
    elapsed: Callable[[], float],
) -> str:
    """Wait for the end, and save now and then. Returns what ended it."""
    saved = 0.0
    while not stopped.is_set():
        left = file.length - elapsed()
        if left <= 0:
            return "complete"
        if history.size >= most:
            return f"ended early: {most} pods and steps (--most)"
        if following.done():
            following.result()
        try:
            async with asyncio.timeout(min(left, 1.0)):
                await stopped.wait()
        except TimeoutError:
            if elapsed() - saved > SAVE_SECONDS:
                saved = elapsed()
                file.save(history, saved)
    return "stopped"
