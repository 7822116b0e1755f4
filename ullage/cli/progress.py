"""Progress of simulations on standard error: bars on a terminal, else a line every 10 seconds."""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

if TYPE_CHECKING:
    from rich.progress import TaskID

    from ullage.sim.experiment.run import RunProgress

_LINE_SECONDS = 10.0


class ProgressDisplay(Protocol):
    """Receives the progress of runs. Its methods may be called from another thread."""

    def far(self, progress: "RunProgress") -> None: ...

    def done(self, label: str) -> None: ...


@contextmanager
def shown(labels: Sequence[str], *, quiet: bool = False) -> Iterator[ProgressDisplay]:
    """Progress of runs with these labels."""
    if quiet:
        yield _Silence()
    elif sys.stderr.isatty():
        with _Bars(labels) as bars:
            yield bars
    else:
        yield _Lines(len(labels))


class _Silence:
    def far(self, progress: "RunProgress") -> None:
        """Ignore it."""

    def done(self, label: str) -> None:
        """Ignore it."""


class _Bars:
    """One bar for all runs, and one for each that is under way."""

    def __init__(self, labels: Sequence[str]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._runs = len(labels)
        self._bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[said]}"),
            TextColumn("ends in"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._began: dict[str, float] = {}
        self._shares: dict[str, float] = {}
        """Completed share of each run."""
        self._all: TaskID | None = None

    def __enter__(self) -> "_Bars":
        self._bars.start()
        if self._runs > 1:
            self._all = self._bars.add_task(f"{self._runs} runs", total=self._runs, said="")
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def far(self, progress: "RunProgress") -> None:
        if progress.label not in self._tasks:
            self._tasks[progress.label] = self._bars.add_task(progress.label, total=1.0, said="")
            self._began[progress.label] = time.monotonic()
        said = _said(progress, time.monotonic() - self._began[progress.label])
        self._bars.update(self._tasks[progress.label], completed=progress.share, said=said)
        self._shares[progress.label] = progress.share
        self._show_all()

    def done(self, label: str) -> None:
        if (task := self._tasks.pop(label, None)) is not None:
            self._bars.remove_task(task)
        self._shares[label] = 1.0
        self._show_all()

    def _show_all(self) -> None:
        if self._all is not None:
            over = sum(share >= 1.0 for share in self._shares.values())
            self._bars.update(self._all, completed=sum(self._shares.values()), said=f"{over} over")


class _Lines:
    """A line every ten seconds for each run under way, and one for each that ended."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._ended = 0
        self._began: dict[str, float] = {}
        self._said: dict[str, float] = {}
        self._lock = threading.Lock()

    def far(self, progress: "RunProgress") -> None:
        now, label = time.monotonic(), progress.label
        with self._lock:
            began = self._began.setdefault(label, now)
            if now - self._said.setdefault(label, now) < _LINE_SECONDS:
                return
            self._said[label] = now
        left = (now - began) * (1 - progress.share) / progress.share if progress.share > 0 else 0.0
        text = f"{label}: {progress.share * 100:.0f} %, {_said(progress, now - began)}, ends in {left:.0f} s"
        click.echo(text, err=True)

    def done(self, label: str) -> None:
        self._ended += 1
        if self._runs > 1:
            click.echo(f"{label}: done ({self._ended} of {self._runs})", err=True)


def _said(progress: "RunProgress", took: float) -> str:
    """Simulated time, pods, and how many times faster than life."""
    from ullage.sim.report.axes import spoken, spoken_time

    speed = f", {spoken(progress.elapsed / took)}x" if took > 0.5 else ""
    return f"{spoken_time(progress.elapsed)}, {progress.pods:,} of {progress.pods_in_all:,} pods{speed}"
