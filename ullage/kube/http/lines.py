"""Bytes as they come to whole lines. Knows nothing of sockets."""


class LineSplitter:
    """Cuts chunks at newlines. A long line is joined once, when it ends: its cost is linear, whatever its chunks."""

    def __init__(self) -> None:
        self._torn: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines this chunk completes, without their newlines; empty lines are skipped."""
        first, *rest = chunk.split(b"\n")
        self._torn.append(first)
        if not rest:
            return []
        lines = [b"".join(self._torn), *rest[:-1]]
        self._torn = [rest[-1]]
        return [line for line in lines if line]

    @property
    def has_torn_line(self) -> bool:
        """True if the stream stopped in the middle of a line."""
        return any(self._torn)
