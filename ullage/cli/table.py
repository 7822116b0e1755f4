"""Tables as plain lines, as kubectl prints them: easy to read, to grep and to cut."""

from collections.abc import Iterable, Sequence

GAP = "   "


def aligned(rows: Iterable[Sequence[object]]) -> list[str]:
    """Rows with their cells one under the other; the last one is as long as it is."""
    cells = [[str(cell) for cell in row] for row in rows]
    if not cells:
        return []
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
    return [
        GAP.join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)), row[-1]]).rstrip()
        for row in cells
    ]
