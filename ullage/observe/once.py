"""Log lines that repeat: each is written once, and again only after a while, with the number of repetitions."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

MOST = 512
"""Number of keys remembered. The oldest is forgotten first, and would be logged again."""


@dataclass(slots=True)
class _Line:
    written: float
    repeated: int = 0


class OnceLog:
    """OnceLog: logs each key once in `again_after` seconds. One for each kind of failure that repeats."""

    def __init__(self, log: Any, *, again_after: float = 600.0) -> None:
        self._log = log
        self._again_after = again_after
        self._lines: dict[Hashable, _Line] = {}

    def warning(self, event: str, key: Hashable, *, now: float, **fields: object) -> None:
        """Write it, unless the same `key` was written a short while ago."""
        line = self._lines.get(key)
        if line is not None and 0.0 <= now - line.written < self._again_after:
            line.repeated += 1
            return
        if line is not None and line.repeated:
            fields["repeated"] = line.repeated
        self._lines.pop(key, None)
        self._lines[key] = _Line(now)
        if len(self._lines) > MOST:
            del self._lines[next(iter(self._lines))]
        self._log.warning(event, **fields)

    def forget(self, key: Hashable) -> bool:
        """Forget a key, so that it is logged again should it return. True if it had been logged."""
        return self._lines.pop(key, None) is not None
