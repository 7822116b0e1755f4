"""Levels over time, kept as means over equal spans: bounded memory however long a run is. Pure."""

from collections.abc import Sequence

MOST_POINTS = 1000
FIRST_WIDTH = 60.0


class Series:
    """Several levels over time, from the beginning on.

    When there are more than MOST_POINTS spans, each two are merged.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.width = FIRST_WIDTH
        self._names = tuple(names)
        self._sums: list[list[float]] = []
        """One row a span: each level times the seconds it lasted."""

    def add(self, begin: float, end: float, levels: Sequence[float]) -> None:
        """Add the levels that held between two times. Calls come in order of time."""
        while end > self.width * MOST_POINTS:
            self._double()
        width, sums = self.width, self._sums
        while begin < end:
            span = int(begin // width)
            until = min(end, (span + 1) * width)
            if until <= begin:  # so close to a border that it rounds away
                span, until = span + 1, min(end, (span + 2) * width)
            while len(sums) <= span:
                sums.append([0.0] * len(self._names))
            row = sums[span]
            for column, level in enumerate(levels):
                row[column] += level * (until - begin)
            begin = until

    def columns(self, end: float) -> dict[str, list[float]]:
        """Mean of each level in each span; the last span may be short."""
        lasted = [min(self.width, end - number * self.width) for number in range(len(self._sums))]
        return {
            name: [
                round(row[column] / seconds, 3) if seconds > 0 else 0.0
                for row, seconds in zip(self._sums, lasted, strict=True)
            ]
            for column, name in enumerate(self._names)
        }

    def _double(self) -> None:
        self.width *= 2
        pairs = [self._sums[place : place + 2] for place in range(0, len(self._sums), 2)]
        self._sums = [[sum(values) for values in zip(*pair, strict=True)] for pair in pairs]
