"""Terminal view of a story: caption, commands to type, pending pods with reasons, latest decisions.

Draws the rows it is given and fits the terminal's size. Every state is shown by a shape as well as a colour.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ullage.sim.demo.captions import Caption, CaptionFeed
from ullage.sim.demo.controls import KEYS
from ullage.sim.demo.gpu_map import Palette, map_lines
from ullage.sim.demo.terminal_model import GpuUse, PendingLine, PoolLine

_WIDE = 110
"""Columns from which the two halves are put side by side."""
_MAP_COLUMNS = 56
_TALL = 32
"""Lines from which the caption has a frame."""
_MOST_WAITING = 5
_MOST_WAITING_IF_SHORT = 2
_LEAST_DECISIONS = 5
"""Lines kept for decisions, whatever the size of the map."""
_PLAIN_REFUSAL = "Unschedulable"
"""Reason most pending pods have; it is left out of the view."""
_INDENT = " " * len("00:00:00 ")
_LABELS = len("a claim of yours  ")
_LOOK = "get pods,gpuclaims,nodeprovisioners"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Dashboard URL, kubeconfig and example manifest shown to the viewer."""

    dashboard: str
    kubeconfig: str
    example: str
    """A manifest to try."""

    @property
    def look(self) -> str:
        """Command that lists pods, claims and provisioners."""
        return f"kubectl --kubeconfig {self.kubeconfig} {_LOOK}"

    @property
    def attempt(self) -> str:
        """Command that applies the example."""
        return f"kubectl --kubeconfig {self.kubeconfig} apply -f {self.example}"

    def typed(self, room: int) -> Iterator[tuple[str, str]]:
        """Commands to type, each with a label.

        If a command would wrap, `export KUBECONFIG` is given first, because a wrapped command cannot be copied.
        """
        if max(len(self.look), len(self.attempt)) <= room:
            yield "in a terminal", self.look
            yield "a claim of yours", self.attempt
        else:
            yield "in a terminal", f"export KUBECONFIG={self.kubeconfig}"
            yield "", f"kubectl {_LOOK}"
            yield "a claim of yours", f"kubectl apply -f {self.example}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One frame of the terminal view."""

    programme: CaptionFeed
    pools: Sequence[PoolLine]
    waiting: Sequence[PendingLine]
    elapsed: float
    speed: float
    """Simulated seconds in a real one; 0 while time stands still."""
    addresses: Addresses
    palette: Palette
    keys: bool = False
    """True if the terminal's keys are read."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height, width = options.height or console.size.height, options.max_width
        top = [self._headline(), self._caption(height), self._addresses(width)]
        if self.keys:
            top.append(Text(key_help(), style="dim"))
        used = sum(len(console.render_lines(part, options.update(height=None), pad=False)) for part in top)
        yield Group(*top, Text(""))
        waits = self._waiting(console, width - _MAP_COLUMNS - 2 if width >= _WIDE else width, short=height < _TALL)
        yield self._body(waits, width, max(8, height - used - 1))

    def _headline(self) -> RenderableType:
        story, story_step = self.programme.story, self.programme.story_step
        return Text.assemble(
            ("ullage demo", "bold"),
            f"  {story.name}",
            ("  ", ""),
            (clock_of(self.elapsed), "bold cyan"),
            (" simulated, paused  ", "bold yellow")
            if self.speed == 0
            else (f" simulated, {self.speed:g} times as fast  ", "dim"),
            (f"{self.programme.number}/{len(story.story_steps)} {story_step.name}", "bold"),
        )

    def _caption(self, height: int) -> RenderableType:
        text = Text(self.programme.story_step.caption)
        if height < _TALL:
            text.stylize("cyan")
            return text
        return Panel(text, box=box.HEAVY, border_style="cyan", padding=(0, 1))

    def _addresses(self, width: int) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row("in a browser", Text.assemble((self.addresses.dashboard, "bold underline")))
        for label, command in self.addresses.typed(width - _LABELS):
            table.add_row(label, Text(command))
        return table

    def _body(self, waits: Sequence[Text], width: int, height: int) -> RenderableType:
        """Pending pods and decisions: beside the map on wide terminals, below it otherwise."""
        if width >= _WIDE:
            drawn = map_lines(self.pools, self.palette, width=_MAP_COLUMNS, rows=height)
            halves = Table.grid(expand=True, padding=(0, 2, 0, 0))
            halves.add_column(width=_MAP_COLUMNS)
            halves.add_column(ratio=1)
            feed = DecisionFeed(self.programme, height - len(waits) - 2)
            halves.add_row(Group(*drawn), Group(*waits, Text(""), feed))
            return halves
        left = height - len(waits) - 1
        drawn = map_lines(self.pools, self.palette, width=width, rows=left - _LEAST_DECISIONS)
        return Group(*drawn, *waits, DecisionFeed(self.programme, left - len(drawn)))

    def _waiting(self, console: Console, width: int, *, short: bool) -> list[Text]:
        """Lines of the pending pods."""
        title = Text.assemble((f"Waiting ({sum(len(row.pods) for row in self.waiting)})", "bold"))
        if not self.waiting:
            return [title.append("  nobody", "dim not bold")]
        most = _MOST_WAITING_IF_SHORT if short else _MOST_WAITING
        if (hidden := len(self.waiting) - most) > 0:
            title.append(f"  and {hidden} more like these", "dim not bold")
        rows = (Clipped(_waiting_row(row), 1 if short else 2) for row in self.waiting[:most])
        return [title, *(line for row in rows for line in row.clipped(console, width))]


def _waiting_row(row: PendingLine) -> Text:
    wants = f" ({row.gpus} GPU{'s' * (row.gpus > 1)} each) for {_age(row.seconds)}: "
    known = row.reason in ("", _PLAIN_REFUSAL)
    why = _one_line(row.message) or "not tried yet"
    return Text.assemble((_who(row), "bold"), (wants, "dim"), ("" if known else f"{row.reason} ", "yellow"), why)


class Clipped:
    """Text of a limited number of lines."""

    def __init__(self, text: Text, lines: int) -> None:
        self._text = text
        self._lines = lines

    def clipped(self, console: Console, width: int) -> Sequence[Text]:
        """Lines as drawn."""
        lines = list(self._text.wrap(console, width))
        if len(lines) > self._lines:
            lines = lines[: self._lines]
            lines[-1].truncate(width - 1)
            lines[-1].append("…")
        return lines


class DecisionFeed:
    """Latest decisions with their reasons, newest first, as many as fit."""

    def __init__(self, programme: CaptionFeed, height: int) -> None:
        self._programme = programme
        self._height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("Decisions", style="bold")
        left, width = self._height, options.max_width - len(_INDENT)
        for spoken in reversed(self._programme.recent):
            lines = Clipped(_decision(spoken), 2).clipped(console, width)
            left -= len(lines)
            if left < 0:
                return
            for number, line in enumerate(lines):
                yield Text.assemble((_INDENT if number else f"{clock_of(spoken.at)} ", "dim"), line)


def _decision(spoken: Caption) -> Text:
    word = (f"{spoken.word} ", "yellow" if spoken.warning else "green")
    if spoken.count > 1:
        # The text is true of the latest alone, and is said of it.
        many = f"{spoken.family[1]}-… x{spoken.count}"
        return Text.assemble(word, (many, "bold"), f", last {spoken.about}: {_one_line(spoken.text)}")
    return Text.assemble(word, (f"{spoken.about}: " if spoken.about else "", "bold"), _one_line(spoken.text))


def clock_of(seconds: float) -> str:
    """Hours, minutes and seconds since the beginning."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def line_of(spoken: Caption) -> str:
    """A caption as one plain line, for output that is no terminal."""
    who = f"{spoken.who} " if spoken.who != "story" else ""
    about = f" {spoken.about}" if spoken.about else ""
    return f"[{clock_of(spoken.at)}] {who}{spoken.word}{about}: {_one_line(spoken.text)}"


def key_help() -> str:
    """Keys and their meaning, in one line."""
    return "  ".join(f"{one.shown} {one.meaning}" for one in KEYS.values()) + "  q quit"


def summary_line(pools: Sequence[PoolLine], waiting: Sequence[PendingLine]) -> str:
    """State of the cluster in one line: nodes and use of each pool, and who waits for what."""
    parts = [f"{pool.name} {_nodes(pool)}, {pool.used_percent} % used" for pool in pools]
    broken = sum(
        tile.use is GpuUse.BROKEN for pool in pools for node in pool.nodes for isle in node.islands for tile in isle
    )
    if broken:
        parts.append(f"{broken} GPU{'s' * (broken > 1)} broken")
    shown = waiting[:_MOST_WAITING]
    parts += [f"{_who(row)} waits: {_one_line(row.message) or 'not tried yet'}" for row in shown]
    if len(waiting) > _MOST_WAITING:
        parts.append(f"{sum(len(row.pods) for row in waiting[_MOST_WAITING:])} more pods wait")
    return "; ".join(parts) or "nothing there yet"


def _nodes(pool: PoolLine) -> str:
    size = _size(pool)
    return f"{size} node" if size == "1" else f"{size} nodes"


def _size(pool: PoolLine) -> str:
    return f"{pool.current}" if pool.target in (None, pool.current) else f"{pool.current} → {pool.target}"


def _who(row: PendingLine) -> str:
    return row.pods[0] if len(row.pods) == 1 else f"{row.workload} x{len(row.pods)}"


def _age(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 60}m{whole % 60:02}s" if whole >= 60 else f"{whole}s"


def _one_line(text: str) -> str:
    return " ".join(text.split())
