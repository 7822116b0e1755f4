"""GPU map as lines of a terminal: pools, their nodes, islands in brackets, and the holder of each GPU.

Keeps to the number of lines it is given: first nodes are put side by side, then each is one sign, then some are only
counted.
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
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_APART = 2
"""Blanks between things in one line."""
_SIDE_BY_SIDE = 2
_LEVELS = "▁▂▃▄▅▆▇█"
_SIGN_LEGEND = ("a sign is a node:", "□ free", "▁▄█ used", "✗ broken GPU", "↓ going", "… starting")


class Palette:
    """Colour and mark of each holder. A holder keeps both once assigned."""

    def __init__(self, *, letters: bool = False) -> None:
        """`letters`: each holder has a letter of its own, for terminals without colours."""
        self._letters = letters
        self._given: dict[str, int] = {}

    def colour(self, holder: str) -> str:
        return _COLOURS[self._number(holder) % len(_COLOURS)]

    def mark(self, tile: GpuTile) -> str:
        """Sign of a GPU: the shape of its use, or the letter of its holder."""
        if self._letters and tile.holder and tile.use is not GpuUse.BROKEN:
            number = self._number(tile.holder)
            return _LETTERS[number] if number < len(_LETTERS) else _SHAPES[tile.use]
        return _SHAPES[tile.use]

    def _number(self, holder: str) -> int:
        return self._given.setdefault(holder, len(self._given))


def map_lines(pools: Sequence[PoolLine], palette: Palette, *, width: int, rows: int) -> list[Text]:
    """Pools and legend in at most `rows` lines, unless the headings alone need more."""
    legend = _legend(pools, palette, width)
    heads = [_head(pool, width) for pool in pools]
    roomy = [_nodes(pool, palette, lanes=1, width=width) for pool in pools]
    blanks = len(pools)
    if sum(map(len, roomy)) + len(heads) + blanks + len(legend) <= rows:
        return [line for head, nodes in zip(heads, roomy, strict=True) for line in (head, *nodes, Text(""))] + legend
    close = [_nodes(pool, palette, lanes=_SIDE_BY_SIDE, width=width) for pool in pools]
    if sum(map(len, close)) + len(heads) + len(legend) <= rows:
        return [line for head, nodes in zip(heads, close, strict=True) for line in (head, *nodes)] + legend
    legend = list(_packed([Text(said, style="dim") for said in _SIGN_LEGEND], width))
    signs = [_signs(pool, width) for pool in pools]
    kept = _shares([len(lines) for lines in signs], rows - len(heads) - len(legend))
    bodies = (_cut(lines, most, pool, width) for lines, most, pool in zip(signs, kept, pools, strict=True))
    return [line for head, nodes in zip(heads, bodies, strict=True) for line in (head, *nodes)] + legend


def _signs(pool: PoolLine, width: int) -> list[Text]:
    """Nodes as one sign each, in the order of their names."""
    signs = [_sign(node) for node in pool.nodes]
    room = width - _APART
    return [Text.assemble(" " * _APART, *signs[at : at + room]) for at in range(0, len(signs), room)]


def _sign(node: NodeLine) -> tuple[str, str]:
    """Sign of a node and its style: the most urgent thing about it, else how full it is."""
    tiles = [tile for island in node.islands for tile in island]
    if any(tile.use is GpuUse.BROKEN for tile in tiles):
        return _SHAPES[GpuUse.BROKEN], "bold red"
    if node.going:
        return "↓", "yellow"
    if not tiles:
        return "…", "dim"
    held = sum(tile.use in (GpuUse.LEASED, GpuUse.SHARED) for tile in tiles)
    if not held:
        return _SHAPES[GpuUse.FREE], "dim"
    return _LEVELS[-(-held * len(_LEVELS) // len(tiles)) - 1], "cyan" if held < len(tiles) else "green"


def _shares(wanted: list[int], rows: int) -> list[int]:
    """Number of lines for each pool. The pool that wants most is cut first, and none goes below one."""
    given = list(wanted)
    while sum(given) > rows and max(given, default=0) > 1:
        given[given.index(max(given))] -= 1
    return given


def _cut(lines: list[Text], most: int, pool: PoolLine, width: int) -> list[Text]:
    if len(lines) <= most:
        return lines
    hidden = len(pool.nodes) - (most - 1) * (width - _APART)
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
            drawn.append(palette.mark(cell), _colour(cell, palette))
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
    parts += [
        Text.assemble((f"{palette.mark(GpuTile(GpuUse.LEASED, holder))} ", palette.colour(holder)), holder)
        for holder in holders
    ]
    return list(_packed(parts, width))


def _packed(parts: Sequence[Text], width: int) -> Iterator[Text]:
    line = Text()
    for part in parts:
        if len(line) and len(line) + _APART + len(part) > width:
            yield line
            line = Text()
        line.append(" " * _APART if len(line) else "").append_text(part)
    yield line
