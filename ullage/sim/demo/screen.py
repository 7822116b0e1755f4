"""The terminal's view of a story: the GPU map with its islands, who waits and why, and what was decided last.

Draws what it is given; fits itself to the size of the terminal. Colour never says anything alone: shapes do, too.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ullage.sim.demo.picture import Cell, NodeRow, PoolRow, Use, WaitingRow
from ullage.sim.demo.programme import Programme, Told

_SHAPES = {Use.FREE: "□", Use.LEASED: "■", Use.SHARED: "▣", Use.BROKEN: "✗"}
_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")
_WIDE = 110
"""Columns from which on two halves stand side by side."""
_MOST_WAITING = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where else there is something to see, and what to type."""

    dashboard: str = ""
    kubectl: str = ""
    """With its kubeconfig, as it is typed."""
    example: str = ""
    """A manifest to try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One picture of the story."""

    programme: Programme
    pools: Sequence[PoolRow]
    waiting: Sequence[WaitingRow]
    elapsed: float
    speed: float
    addresses: Addresses

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.size.height
        top = [self._headline(), self._caption(), self._addresses()]
        used = sum(len(console.render_lines(part, options.update(height=None), pad=False)) for part in top)
        yield Group(*top)
        yield self._body(options.max_width, max(8, height - used - 1))

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
            table.add_row("in a browser", Text(said.dashboard, style="bold underline"))
        if said.kubectl:
            table.add_row("in a terminal", Text(f"{said.kubectl} get pods,gpuclaims,nodeprovisioners"))
            table.add_row("a claim of yours", Text(f"{said.kubectl} apply -f {said.example}"))
        return table

    def _body(self, width: int, height: int) -> RenderableType:
        waits, shown = self._waiting(), min(len(self.waiting), _MOST_WAITING)
        if width < _WIDE:
            above = sum(2 + len(pool.nodes) for pool in self.pools) + max(1, shown)
            return Group(self._map(), waits, self._decisions(max(3, height - above - 4)))
        halves = Table.grid(expand=True, padding=(0, 1))
        halves.add_column(ratio=5)
        halves.add_column(ratio=8)
        halves.add_row(self._map(), Group(waits, self._decisions(max(3, height - max(1, shown) - 5))))
        return halves

    def _map(self) -> RenderableType:
        return Group(*(part for pool in self.pools for part in _pool(pool)), _legend(self.pools))

    def _waiting(self) -> RenderableType:
        table = _titled("Waiting", len(self.waiting))
        table.add_column(no_wrap=True, style="bold")
        table.add_column(no_wrap=True, justify="right", style="dim")
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for row in self.waiting[:_MOST_WAITING]:
            more = f" and {len(row.pods) - 1} more" if len(row.pods) > 1 else ""
            said = Text.assemble((f"{row.reason or 'Waiting'} ", "yellow"), _one_line(row.message))
            table.add_row(f"{row.pods[0]}{more}", f"{row.gpus} GPU  {_age(row.seconds)}", said)
        if not self.waiting:
            table.add_row(Text("nobody", style="dim"), "", "")
        return table

    def _decisions(self, most: int) -> RenderableType:
        table = _titled("Decisions", None)
        table.add_column(no_wrap=True, style="dim")
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for told in list(self.programme.recent)[: -most - 1 : -1]:
            word = Text(told.word, style="yellow" if told.warning else "green")
            table.add_row(clock_of(told.at), word, Text.assemble((f"{told.about} ", "bold"), _one_line(told.text)))
        return table


def clock_of(seconds: float) -> str:
    """Hours, minutes and seconds since the beginning."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def line_of(told: Told) -> str:
    """What was told, for a stream that nobody can draw on."""
    who = f"{told.who} " if told.who != "story" else ""
    about = f" {told.about}" if told.about else ""
    return f"[{clock_of(told.at)}] {who}{told.word}{about}: {_one_line(told.text)}"


def _pool(pool: PoolRow) -> Iterator[RenderableType]:
    size = f"{pool.current}" if pool.target in (None, pool.current) else f"{pool.current} → {pool.target}"
    coming = f", {pool.coming} coming" if pool.coming else ""
    price = f"  {pool.price}/h each" if pool.price else ""
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
        table.add_row(Text(f"  {node.name}", style=style), _gpus(node), Text(node.mark, style="yellow"))
    yield table
    yield Text("")


def _gpus(node: NodeRow) -> Text:
    """Islands in brackets; GPUs that are wired to nobody stand apart."""
    drawn = Text()
    for number, island in enumerate(node.islands):
        drawn.append(" " if number else "")
        drawn.append("[" if node.wired else "", "dim")
        for place, cell in enumerate(island):
            drawn.append(" " if place and not node.wired else "")
            drawn.append(_SHAPES[cell.use], _colour(cell))
        drawn.append("]" if node.wired else "", "dim")
    return drawn


def _colour(cell: Cell) -> str:
    match cell.use:
        case Use.FREE:
            return "dim"
        case Use.BROKEN:
            return "bold red"
        case _:
            return colour_of(cell.holder)


def colour_of(holder: str) -> str:
    """The same workload always has the same colour."""
    return _COLOURS[zlib.crc32(holder.encode()) % len(_COLOURS)]


def _legend(pools: Sequence[PoolRow]) -> RenderableType:
    cells = [cell for pool in pools for node in pool.nodes for island in node.islands for cell in island]
    holders = sorted({cell.holder for cell in cells if cell.holder})
    line = Text("□ free  ✗ broken  [ ] NVLink island", style="dim")
    for holder in holders:
        line.append("  ")
        line.append("■ ", colour_of(holder))
        line.append(holder, "default")
    return line


def _titled(title: str, count: int | None) -> Table:
    shown = title if count is None else f"{title} ({count})"
    return Table(
        title=Text(shown, style="bold"),
        title_justify="left",
        box=None,
        show_header=False,
        padding=(0, 1, 0, 0),
        expand=True,
    )


def _age(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 60}m{whole % 60:02}s" if whole >= 60 else f"{whole}s"


def _one_line(text: str) -> str:
    return " ".join(text.split())
