"""Demo: a story's world, with an API over HTTP, a dashboard and a terminal view beside it; all are stopped at the
end."""

import asyncio
import importlib.resources
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from ullage.cli.demo import DemoOptions
from ullage.cli.demo_browser import open_browser
from ullage.clock import Instant, WallClock
from ullage.errors import InvariantBroken
from ullage.observe.log import configure
from ullage.observe.probes import ListenAddress
from ullage.sim import demo
from ullage.sim.demo import terminal_model
from ullage.sim.demo.captions import Caption, CaptionFeed
from ullage.sim.demo.catalog import story_named
from ullage.sim.demo.cluster import play, staged
from ullage.sim.demo.gpu_map import Palette
from ullage.sim.demo.informers import TerminalInformers
from ullage.sim.demo.screen import Addresses, Frame, clock_of, line_of
from ullage.sim.http import ServeOptions, serving
from ullage.sim.virtual_time import run_scaled
from ullage.sim.world.world import World
from ullage.web.live import LiveView, follow_cluster, served

_LOOPBACK = ListenAddress("127.0.0.1", 0)
_HEAD_START = 86_400.0
"""Clients that work out ages themselves compare with their own clock: the story's begins a day earlier."""
_FRAME_SECONDS = 0.4
_EXAMPLE = "claim.yaml"
_COUNTED = {
    "Scheduled": ("pod placed", "pods placed"),
    "NodesLaunched": ("purchase of nodes", "purchases of nodes"),
    "PodEvicted": ("pod moved", "pods moved"),
    "NodeRemoved": ("node given back", "nodes given back"),
}


def show(asked: DemoOptions) -> None:
    """Run the demo until it is over, or the user stops it."""
    spoken = CaptionFeed(story_named(asked.scenario))
    configure(level="error")  # whatever is worth telling is told on the screen
    epoch = Instant(WallClock().now() - _HEAD_START)
    showing = _Show(asked, spoken)
    run_scaled(_until_stopped(showing.run(), asked), speed=asked.speed, epoch=epoch)
    if showing.broken:
        raise InvariantBroken(showing.broken)


async def _until_stopped(work: Coroutine[Any, Any, None], asked: DemoOptions) -> None:
    running, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
    stopped = False

    def stop() -> None:
        """Stop once: further signals must not interrupt the clean-up."""
        nonlocal stopped
        if not stopped:
            stopped = True
            running.cancel()

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as it is under `nohup`
        loop.add_signal_handler(signal.SIGHUP, stop)
    # In seconds of the onlooker: those of this loop are longer where it has much to do.
    alarm = threading.Timer(asked.duration or 0.0, loop.call_soon_threadsafe, (stop,))
    if asked.duration is not None:
        alarm.start()
    try:
        await running
    except asyncio.CancelledError:
        if not stopped:
            raise
    finally:
        alarm.cancel()


class _Show:
    """One run of the demo."""

    def __init__(self, asked: DemoOptions, programme: CaptionFeed) -> None:
        self._asked = asked
        self._programme = programme
        self._console = Console()
        self._palette = Palette()
        self._words: Counter[str] = Counter()
        self._elapsed = 0.0
        self.broken = ""
        """First breach of an invariant, in a sentence; empty if there was none."""

    async def run(self) -> None:
        """Run until cancelled."""
        self._programme.listen(self._count)
        try:
            with _folder() as folder:
                await self._in(folder)
        finally:
            click.echo(self._farewell())

    async def _in(self, folder: Path) -> None:
        asked = self._asked
        async with staged(self._programme.story, asked.seed) as world:
            view = LiveView(world.clock, title=f"demo: {asked.scenario}", speed=asked.speed)
            async with (
                serving(world.server, ServeOptions(kubeconfig=folder / "kubeconfig")) as api,
                served(view, _LOOPBACK) as url,
            ):
                example = str(folder / _EXAMPLE)
                await self._play(world, view, Addresses(dashboard=url, kubeconfig=str(api.kubeconfig), example=example))

    async def _play(self, world: World, view: LiveView, addresses: Addresses) -> None:
        """Start all observers before the story begins."""
        began = world.clock.now() - world.elapsed
        watching = TerminalInformers(world.api, world.clock, self._programme.record, seed=self._asked.seed, began=began)
        self._programme.listen(lambda spoken: _caption(view, spoken))
        async with asyncio.TaskGroup() as group:
            group.create_task(watching.run(), name="what the terminal shows")
            group.create_task(follow_cluster(world.api, view, seed=self._asked.seed), name="what the dashboard shows")
            await watching.wait_synced()
            if self._asked.browser:
                open_browser(addresses.dashboard)
            looking = self._draw if self._console.is_terminal else self._print
            group.create_task(looking(world, watching, addresses), name="terminal")
            group.create_task(play(world, self._programme), name="story")
            group.create_task(self._watch_over(world), name="invariants")

    async def _watch_over(self, world: World) -> None:
        """Report and remember a breach of an invariant; the demo goes on, so that it can be looked at."""
        await world.broken()
        if (violation := world.violation) is not None:
            self.broken = violation.breach
            spoken = Caption(at=violation.at, who="demo", word="InvariantBroken", text=violation.breach, warning=True)
            self._programme.record(spoken)

    async def _draw(self, world: World, watching: TerminalInformers, addresses: Addresses) -> None:
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(self._frame(world, watching, addresses), refresh=True)
                await asyncio.sleep(_FRAME_SECONDS * self._asked.speed)

    async def _print(self, world: World, _watching: TerminalInformers, addresses: Addresses) -> None:
        for line in (
            f"dashboard: {addresses.dashboard}",
            f"kubectl:   {addresses.look}",
            f"try:       {addresses.attempt}",
        ):
            _say(line)
        self._programme.listen(lambda spoken: _say(line_of(spoken)))
        while True:
            self._elapsed = world.elapsed
            await asyncio.sleep(_FRAME_SECONDS * self._asked.speed)

    def _frame(self, world: World, watching: TerminalInformers, addresses: Addresses) -> Frame:
        now, self._elapsed = world.clock.now(), world.elapsed
        return Frame(
            programme=self._programme,
            pools=terminal_model.pools(watching.terminal, now),
            waiting=terminal_model.waiting(watching.terminal, now),
            elapsed=self._elapsed,
            speed=self._asked.speed,
            addresses=addresses,
            palette=self._palette,
        )

    def _count(self, spoken: Caption) -> None:
        self._words[spoken.word] += 1

    def _farewell(self) -> str:
        counted = [f"{times} {what[times > 1]}" for word, what in _COUNTED.items() if (times := self._words[word])]
        done = ", ".join(counted) or "nothing was decided"
        return f"{clock_of(self._elapsed)} simulated: {done}. Nothing is left behind."


@contextmanager
def _folder() -> Iterator[Path]:
    """Temporary folder for the kubeconfig and the example, removed when the demo ends."""
    with tempfile.TemporaryDirectory(prefix="ullage-demo-") as name:
        folder = Path(name)
        text = importlib.resources.files(demo).joinpath(_EXAMPLE).read_text()
        (folder / _EXAMPLE).write_text(text)
        yield folder


def _caption(view: LiveView, spoken: Caption) -> None:
    if spoken.who == "story":
        view.caption = spoken.text


def _say(line: str) -> None:
    """Print a line and flush it: the output may be read through a pipe."""
    click.echo(line)
