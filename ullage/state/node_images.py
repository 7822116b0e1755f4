"""Images by node row, from node status."""

from collections.abc import Mapping

from ullage.model.node import Node
from ullage.state.node_columns import NodeColumns


class ImageTable:
    """Sizes of images by name and row. `refresh` before reading."""

    def __init__(self, columns: NodeColumns, nodes: Mapping[str, Node]) -> None:
        self._columns = columns
        self._nodes = nodes
        self._sizes: dict[str, dict[int, int]] = {}
        self._on_row: dict[int, tuple[tuple[str, int], ...]] = {}
        self._version = 0

    def refresh(self) -> None:
        renewed = self._columns.renewed.since(self._version)
        for row in range(self._columns.size) if renewed is None else renewed:
            self._take(row)
            self._put(row)
        self._version = self._columns.renewed.version

    def holders(self, image: str) -> Mapping[int, int]:
        """Bytes of this image on each row that has it."""
        return self._sizes.get(image, {})

    def _put(self, row: int) -> None:
        name = self._columns.names[row]
        images = self._nodes[name].images if name else ()
        if images:
            self._on_row[row] = images
        for image, size in images:
            self._sizes.setdefault(image, {}).setdefault(row, size)

    def _take(self, row: int) -> None:
        for image, _ in self._on_row.pop(row, ()):
            holders = self._sizes.get(image, {})
            holders.pop(row, None)
            if not holders:
                self._sizes.pop(image, None)
