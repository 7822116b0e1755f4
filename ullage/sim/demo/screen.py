"""The terminal's view of a story: the GPU map with its islands, who waits and why, and what was decided last.

Draws what it is given; fits itself to the size of the terminal. Colour never says anything alone: shapes do, too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ullage.sim.demo.picture import Cell, NodeRow, PoolRow, Use, WaitingRow
from ullage.sim.demo.programme import Programme, Told

_SHAPES = {Use.FREE: "□", Use.LEASED: "■", Use.SHARED: "▣", Use.BROKEN: "✗"}
_COLOURS = (
    "cyan",
    "green",
    "magenta",
    "yellow",
    "blue",
    "dark_orange",
    "spring_green3",
    "hot_pink",
    "light_slate_blue",
)
_WIDE = 110
"""Columns from which on two halves stand side by side."""
_MAP_COLUMNS = 56
_MOST_WAITING = 5
_PLAIN_REFUSAL = "Unschedulable"
"""What most pods that wait are: not worth saying."""
_INDENT = " " * len("00:00:00 ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where else there is something to see, and what to type."""

    dashboard: str = ""
    kubectl: str = ""
    """With its kubeconfig, as it is typed."""
    example: str = ""
    """A manifest to try."""


class Palette:
    """Who has which colour. Once somebody has one, it stays."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def colour(self, holder: str) -> str:
        return self._given.setdefault(holder, _COLOURS[len(self._given) % len(_COLOURS)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One picture of the story."""

    programme: Programme
    pools: Sequence[PoolRow]
    waiting: Sequence[WaitingRow]
    elapsed: float
    speed: float
    addresses: Addresses
    palette: Palette

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.size.height
        top = [self._headline(), self._caption(), self._addresses()]
        used = sum(len(console.render_lines(part, options.update(height=None), pad=False)) for part in top)
        yield Group(*top, Text(""))
        yield self._body(options.max_width, max(8, height - used - 2))

    def _headline(self) -> RenderableType:
        story, moment = self.programme.story, self.programme.moment
        return Text.assemble(
            ("ullage demo", "bold"),
            f"  {story.name}",
            ("  ", ""),
            (clock_of(self.elapsed), "bold cyan"),
            (f" simulated, {self.speed:g} times as fast  ", "dim"),
            (f"{self.programme.number}/{len(story.moments)} {moment.name}", "bold"),
        )

    def _caption(self) -> RenderableType:
        return Panel(Text(self.programme.moment.caption), box=box.HEAVY, border_style="cyan", padding=(0, 1))

    def _addresses(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        said = self.addresses
        if said.dashboard:
            table.add_row("in a browser", Text.assemble((said.dashboard, "bold underline")))
        if said.kubectl:
            table.add_row("in a terminal", Text(f"{said.kubectl} get pods,gpuclaims,nodeprovisioners"))
            table.add_row("a claim of yours", Text(f"{said.kubectl} apply -f {said.example}"))
        return table

    def _body(self, width: int, height: int) -> RenderableType:
        waits, shown = self._waiting(), 2 * min(len(self.waiting), _MOST_WAITING)
        if width < _WIDE:
            above = sum(2 + len(pool.nodes) for pool in self.pools) + shown
            return Group(self._map(), waits, Feed(self.programme, max(3, height - above - 5)))
        halves = Table.grid(expand=True, padding=(0, 2, 0, 0))
        halves.add_column(width=_MAP_COLUMNS)
        halves.add_column(ratio=1)
        halves.add_row(self._map(), Group(waits, Text(""), Feed(self.programme, max(3, height - max(1, shown) - 4))))
        return halves

    def _map(self) -> RenderableType:
        drawn = [part for pool in self.pools for part in _pool(pool, self.palette)]
        return Group(*drawn, _legend(self.pools, self.palette))

    def _waiting(self) -> RenderableType:
        parts: list[RenderableType] = [Text(f"Waiting ({sum(len(row.pods) for row in self.waiting)})", style="bold")]
        for row in self.waiting[:_MOST_WAITING]:
            who = row.pods[0] if len(row.pods) == 1 else f"{row.workload} x{len(row.pods)}"
            wants = f" ({row.gpus} GPU{'s' * (row.gpus > 1)} each) for {_age(row.seconds)}: "
            known = row.reason in ("", _PLAIN_REFUSAL)
            why = _one_line(row.message) or "not tried yet"
            said = Text.assemble((who, "bold"), (wants, "dim"), ("" if known else f"{row.reason} ", "yellow"), why)
            parts.append(Clipped(said, 2))
        if not self.waiting:
            parts.append(Text("nobody", style="dim"))
        return Group(*parts)


class Clipped:
    """Text of so many lines at most."""

    def __init__(self, text: Text, lines: int) -> None:
        self._text = text
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.clipped(console, options.max_width)

    def clipped(self, console: Console, width: int) -> Sequence[Text]:
        """As it is drawn, line by line."""
        lines = list(self._text.wrap(console, width))
        if len(lines) > self._lines:
            lines = lines[: self._lines]
            lines[-1].truncate(width - 1)
            lines[-1].append("…")
        return lines


class Feed:
    """The latest decisions with their why, the newest first, as many as there is room for."""

    def __init__(self, programme: Programme, height: int) -> None:
        self._programme = programme
        self._height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("Decisions", style="bold")
        left, width = self._height, options.max_width - len(_INDENT)
        for told in reversed(self._programme.recent):
            lines = Clipped(_decision(told), 2).clipped(console, width)
            left -= len(lines)
            if left < 0:
                return
            for number, line in enumerate(lines):
                yield Text.assemble((_INDENT if number else f"{clock_of(told.at)} ", "dim"), line)


def _decision(told: Told) -> Text:
    about = told.about if told.count == 1 else f"{told.family[1]}-… x{told.count}"
    word = (f"{told.word} ", "yellow" if told.warning else "green")
    return Text.assemble(word, (f"{about}: " if about else "", "bold"), _one_line(told.text))


def clock_of(seconds: float) -> str:
    """Hours, minutes and seconds since the beginning."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def line_of(told: Told) -> str:
    """What was told, for a stream that nobody can draw on."""
    who = f"{told.who} " if told.who != "story" else ""
    about = f" {told.about}" if told.about else ""
    return f"[{clock_of(told.at)}] {who}{told.word}{about}: {_one_line(told.text)}"


def _pool(pool: PoolRow, palette: Palette) -> Iterator[RenderableType]:
    size = f"{pool.current}" if pool.target in (None, pool.current) else f"{pool.current} → {pool.target}"
    coming = f", {pool.coming} coming" if pool.coming else ""
    price = f"  {pool.price}/h" if pool.price else ""
    yield Text.assemble(
        (pool.name, "bold"),
        (f"  {pool.sort}  ", "dim"),
        f"{size} nodes{coming}",
        (f"  {pool.used_percent} % used{price}", "dim"),
    )
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for node in pool.nodes:
        style = "dim" if node.going else ""
        table.add_row(Text(f"  {node.name}", style=style), _gpus(node, palette), Text(node.mark, style="yellow"))
    if (booting := pool.current - len(pool.nodes)) > 0:
        table.add_row("", Text(f"{booting} more boot up", style="dim"), "")
    yield table
    yield Text("")


def _gpus(node: NodeRow, palette: Palette) -> Text:
    """Islands in brackets; GPUs that are wired to nobody stand apart."""
    drawn = Text()
    for number, island in enumerate(node.islands):
        drawn.append(" " if number else "")
        drawn.append("[" if node.wired else "", "dim")
        for place, cell in enumerate(island):
            drawn.append(" " if place and not node.wired else "")
            drawn.append(_SHAPES[cell.use], _colour(cell, palette))
        drawn.append("]" if node.wired else "", "dim")
    return drawn


def _colour(cell: Cell, palette: Palette) -> str:
    match cell.use:
        case Use.FREE:
            return "dim"
        case Use.BROKEN:
            return "bold red"
        case _:
            return palette.colour(cell.holder)


def _legend(pools: Sequence[PoolRow], palette: Palette) -> RenderableType:
    cells = [cell for pool in pools for node in pool.nodes for island in node.islands for cell in island]
    holders = sorted({cell.holder for cell in cells if cell.holder})
    parts = [Text("□ free", style="dim"), Text("✗ broken", style="dim"), Text("[ ] NVLink island", style="dim")]
    parts += [Text.assemble(("■ ", palette.colour(holder)), holder) for holder in holders]
    return Columns(parts, padding=(0, 2))


def _age(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 60}m{whole % 60:02}s" if whole >= 60 else f"{whole}s"


def _one_line(text: str) -> str:
    return " ".join(text.split())
