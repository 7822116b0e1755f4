"""GPU map as lines of a terminal: pools, their nodes, islands in brackets, and the holder of each GPU.

Keeps to the number of lines it is given: first nodes are put side by side, then some are only counted.
"""

from collections.abc import Iterator, Sequence

from rich.text import Text

from ullage.sim.demo.terminal_model import GpuTile, GpuUse, NodeLine, PoolLine

_SHAPES = {GpuUse.FREE: "□", GpuUse.LEASED: "■", GpuUse.SHARED: "▣", GpuUse.BROKEN: "✗"}
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
_APART = 2
"""Blanks between things in one line."""
_SIDE_BY_SIDE = 2


class Palette:
    """Colour of each holder. A holder keeps its colour once assigned."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def colour(self, holder: str) -> str:
        return self._given.setdefault(holder, _COLOURS[len(self._given) % len(_COLOURS)])


def map_lines(pools: Sequence[PoolLine], palette: Palette, *, width: int, rows: int) -> list[Text]:
    """Pools and legend in at most `rows` lines, unless the headings alone need more."""
    legend = _legend(pools, palette, width)
    heads = [_head(pool, width) for pool in pools]
    roomy = [_nodes(pool, palette, lanes=1, width=width) for pool in pools]
    blanks = len(pools)
    if sum(map(len, roomy)) + len(heads) + blanks + len(legend) <= rows:
        return [line for head, nodes in zip(heads, roomy, strict=True) for line in (head, *nodes, Text(""))] + legend
    close = [_nodes(pool, palette, lanes=_SIDE_BY_SIDE, width=width) for pool in pools]
    kept = _shares([len(lines) for lines in close], rows - len(heads) - len(legend))
    bodies = (_cut(lines, most, pool) for lines, most, pool in zip(close, kept, pools, strict=True))
    return [line for head, nodes in zip(heads, bodies, strict=True) for line in (head, *nodes)] + legend


def _shares(wanted: list[int], rows: int) -> list[int]:
    """Number of lines for each pool. The pool that wants most is cut first, and none goes below one."""
    given = list(wanted)
    while sum(given) > rows and max(given, default=0) > 1:
        given[given.index(max(given))] -= 1
    return given


def _cut(lines: list[Text], most: int, pool: PoolLine) -> list[Text]:
    if len(lines) <= most:
        return lines
    hidden = len(pool.nodes) - (most - 1) * _SIDE_BY_SIDE
    return [*lines[: most - 1], Text(f"  {hidden} nodes are not shown", style="dim")]


def _head(pool: PoolLine, width: int) -> Text:
    size = f"{pool.current}" if pool.target in (None, pool.current) else f"{pool.current} → {pool.target}"
    coming = f", {pool.coming} coming" if pool.coming else ""
    price = f"  ${pool.price}/h each" if pool.price else ""
    line = Text.assemble(
        (pool.name, "bold"),
        (f"  {pool.sort}  ", "dim"),
        f"{size} nodes{coming}",
        (f"  {pool.used_percent} % used{price}", "dim"),
    )
    line.truncate(width, overflow="ellipsis")
    return line


def _nodes(pool: PoolLine, palette: Palette, *, lanes: int, width: int) -> list[Text]:
    """Nodes in `lanes` columns, each with its name, its GPUs and its state."""
    names = max((len(node.name) for node in pool.nodes), default=0)
    drawn = [_gpus(node, palette) for node in pool.nodes]
    gpus = max(map(len, drawn), default=0)
    lane = (width - _APART * (lanes - 1)) // lanes
    cells = [_node(node, cells, (names, gpus)) for node, cells in zip(pool.nodes, drawn, strict=True)]
    if (booting := pool.current - len(pool.nodes)) > 0:
        cells.append(Text(f"  {booting} more boot up", style="dim"))
    for cell in cells:
        cell.truncate(lane, overflow="ellipsis", pad=lanes > 1)
    return [Text(" " * _APART).join(cells[at : at + lanes]) for at in range(0, len(cells), lanes)]


def _node(node: NodeLine, gpus: Text, widths: tuple[int, int]) -> Text:
    name, wide = widths
    line = Text.assemble((f"  {node.name:{name}}  ", "dim" if node.going else ""), gpus)
    return line.append(" " * (wide - len(gpus) + _APART)).append(node.mark, "yellow")


def _gpus(node: NodeLine, palette: Palette) -> Text:
    """GPUs of a node: islands in brackets, GPUs without NVLink apart."""
    drawn = Text()
    for number, island in enumerate(node.islands):
        drawn.append(" " if number else "")
        drawn.append("[" if node.wired else "", "dim")
        for place, cell in enumerate(island):
            drawn.append(" " if place and not node.wired else "")
            drawn.append(_SHAPES[cell.use], _colour(cell, palette))
        drawn.append("]" if node.wired else "", "dim")
    return drawn


def _colour(cell: GpuTile, palette: Palette) -> str:
    match cell.use:
        case GpuUse.FREE:
            return "dim"
        case GpuUse.BROKEN:
            return "bold red"
        case _:
            return palette.colour(cell.holder)


def _legend(pools: Sequence[PoolLine], palette: Palette, width: int) -> list[Text]:
    """Legend: meaning of the marks and colour of each holder, in as few lines as it takes."""
    cells = [cell for pool in pools for node in pool.nodes for island in node.islands for cell in island]
    holders = sorted({cell.holder for cell in cells if cell.holder})
    parts = [Text(said, style="dim") for said in ("□ free", "✗ broken", "[ ] NVLink island")]
    parts += [Text.assemble(("■ ", palette.colour(holder)), holder) for holder in holders]
    return list(_packed(parts, width))


def _packed(parts: Sequence[Text], width: int) -> Iterator[Text]:
    line = Text()
    for part in parts:
        if len(line) and len(line) + _APART + len(part) > width:
            yield line
            line = Text()
        line.append(" " * _APART if len(line) else "").append_text(part)
    yield line
