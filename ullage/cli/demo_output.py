"""Output of a demo: a picture on a terminal that can be drawn on, lines on everything else.

Both tell the same: captions, decisions with their reasons, who waits for what, and how full the pools are.
"""

import shutil
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import click
from rich.console import Console
from rich.live import Live

from ullage.cli.demo_keyboard import Keyboard
from ullage.sim.demo import terminal_model
from ullage.sim.demo.captions import Caption, CaptionFeed
from ullage.sim.demo.controls import DemoControls
from ullage.sim.demo.gpu_map import Palette
from ullage.sim.demo.informers import TerminalInformers
from ullage.sim.demo.screen import Addresses, Frame, clock_of, key_help, line_of, summary_line
from ullage.sim.world.world import World

LEAST_COLUMNS, LEAST_LINES = 60, 16
"""Size of a terminal below which the picture would leave out too much."""
_SUMMARY_SECONDS = 120.0
"""Simulated seconds between two summaries among the lines."""
_HANGING = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """One run of the story, as an output shows it."""

    world: World
    watching: TerminalInformers
    feed: CaptionFeed
    controls: DemoControls
    addresses: Addresses
    keys: bool
    """True if keys are read."""

    @classmethod
    def of(
        cls, world: World, feed: CaptionFeed, controls: DemoControls, addresses: Addresses, keys: Keyboard
    ) -> "Performance":
        """Performance of a feed's story in a world, with informers for what the terminal shows."""
        began = world.clock.now() - world.elapsed
        watching = TerminalInformers(world.api, world.clock, feed.record, seed=world.spec.seed, began=began)
        return cls(world=world, watching=watching, feed=feed, controls=controls, addresses=addresses, keys=bool(keys))


class DemoOutput(Protocol):
    """Output of a demo."""

    @property
    def gone(self) -> bool:
        """True if nobody reads it any more."""
        ...

    def begin(self, performance: Performance) -> None:
        """Show this one from now on."""
        ...

    def refresh(self) -> None:
        """Show the present. Called a few times a second, and after every key."""
        ...

    def explain_keys(self) -> None:
        """Say what the keys mean, where that is not on the screen all the time."""
        ...


@contextmanager
def demo_output() -> Iterator[DemoOutput]:
    """Output that suits standard output."""
    console = Console()
    size = console.size
    drawable = console.is_terminal and not console.is_dumb_terminal
    if not drawable or size.width < LEAST_COLUMNS or size.height < LEAST_LINES:
        yield LineOutput(size.width if console.is_terminal else None)
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield ScreenOutput(live, console)


class ScreenOutput:
    """Picture of the cluster that is drawn anew a few times a second."""

    gone = False

    def __init__(self, live: Live, console: Console) -> None:
        self._live = live
        self._palette = Palette(letters=console.no_color or console.color_system is None)
        self._performance: Performance | None = None

    def begin(self, performance: Performance) -> None:
        self._performance = performance

    def refresh(self) -> None:
        if self._performance is not None:
            self._live.update(self._frame(self._performance), refresh=True)

    def explain_keys(self) -> None:
        """Nothing: they are on the screen."""

    def _frame(self, shown: Performance) -> Frame:
        now = shown.world.clock.now()
        return Frame(
            programme=shown.feed,
            pools=terminal_model.pools(shown.watching.terminal, now),
            waiting=terminal_model.waiting(shown.watching.terminal, now),
            elapsed=shown.world.elapsed,
            speed=shown.controls.speed,
            addresses=shown.addresses,
            palette=self._palette,
            keys=shown.keys,
        )


class LineOutput:
    """Lines for pipes, files, terminals that cannot be drawn on and those that are too small."""

    def __init__(self, width: int | None) -> None:
        """`width`: columns of a terminal, at which lines are broken between words. None: they are not broken."""
        self.gone = False
        self._width = width
        self._performance: Performance | None = None
        self._addresses: Addresses | None = None
        self._summary, self._summary_at = "", 0.0

    def begin(self, performance: Performance) -> None:
        if self._performance is not None:
            self._say(f"[{clock_of(0.0)}] from the beginning: the same seed, the same story")
        self._performance, self._summary, self._summary_at = performance, "", 0.0
        if performance.addresses != self._addresses:
            self._addresses = performance.addresses
            self._introduce(performance.addresses)
            self.explain_keys()
        performance.feed.listen(self._print_caption)

    def refresh(self) -> None:
        if self._performance is not None and self._performance.world.elapsed >= self._summary_at + _SUMMARY_SECONDS:
            self._summarise(self._performance)

    def explain_keys(self) -> None:
        if self._performance is not None and self._performance.keys:
            self._say(f"keys:      {key_help()}")

    def _introduce(self, addresses: Addresses) -> None:
        """Commands are never broken: they are there to be copied."""
        for line in (
            f"dashboard: {addresses.dashboard}",
            f"kubectl:   {addresses.look}",
            f"try:       {addresses.attempt}",
        ):
            self._write(line)

    def _print_caption(self, spoken: Caption) -> None:
        if spoken.who == "story" and self._performance is not None:
            self._summarise(self._performance)
        self._say(line_of(spoken))

    def _summarise(self, shown: Performance) -> None:
        """Say how full the pools are and who waits, unless that was said last."""
        self._summary_at, now = shown.world.elapsed, shown.world.clock.now()
        terminal = shown.watching.terminal
        said = summary_line(terminal_model.pools(terminal, now), terminal_model.waiting(terminal, now))
        if said != self._summary:
            self._summary = said
            self._say(f"[{clock_of(shown.world.elapsed)}] cluster: {said}")

    def _say(self, line: str) -> None:
        if self._width is not None:
            width = max(20, shutil.get_terminal_size((self._width, 24)).columns)
            line = textwrap.fill(line, width, subsequent_indent=_HANGING, break_on_hyphens=False)
        self._write(line)

    def _write(self, line: str) -> None:
        """Print a line and flush it: the output may be read through a pipe."""
        try:
            click.echo(line)
        except BrokenPipeError:
            self.gone = True
