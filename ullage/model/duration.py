"""Durations as people write them: one grammar for settings, flags, environment variables and custom resources.

A duration is a number with a unit (`90s`, `10m`, `250ms`, `2d`) or several of them added up (`1h30m`). A number that
is no text counts as seconds. Reading an instant is in `kube.timestamps`.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from ullage.model.units import Seconds

UNITS: Mapping[str, float] = MappingProxyType({"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001})
_PARTS = r"(\.[0-9]{1,3})?"
PATTERN = rf"^([0-9]{{1,8}}{_PARTS}(ms|s)|[0-9]{{1,6}}{_PARTS}(m|h)|[0-9]{{1,5}}{_PARTS}d)+$"
"""Of a whole text, in the dialect that Python, Go and CEL share. The schema of custom resources has it.

Digits are bounded, so that an instant so much later can still be written as a date.
"""
EXAMPLES = "30s, 10m or 1h30m"

_WHOLE = re.compile(PATTERN)
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhd])")


def read_duration(raw: object) -> Seconds | None:
    """Seconds, or None if `raw` is no duration. Numbers are seconds."""
    if isinstance(raw, bool):
        return None
    if isinstance(raw, int | float):
        return Seconds(float(raw)) if 0 <= raw < float("inf") else None
    if not isinstance(raw, str) or not _WHOLE.fullmatch(raw):
        return None
    return Seconds(sum(float(number) * UNITS[unit] for number, unit in _PART.findall(raw)))


def parse_duration(text: str) -> Seconds:
    """Seconds. Raises ValueError with the text in it."""
    seconds = read_duration(text)
    if seconds is None:
        raise ValueError(f"{text!r} is not a duration such as {EXAMPLES}")
    return seconds


def write_duration(seconds: Seconds) -> str:
    """The shortest exact form: 90 s is 90s, 600 s is 10m."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % UNITS[unit] == 0:
            return f"{int(seconds // UNITS[unit])}{unit}"
    if seconds.is_integer():
        return f"{int(seconds)}s"
    return f"{seconds * 1000:g}ms" if seconds < 1 else f"{seconds:g}s"
