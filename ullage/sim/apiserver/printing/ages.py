"""Ages in the short form of tables: `5m12s`, `3h`, `2d4h`."""

from ullage.sim.apiserver.printing.column import UNKNOWN
from ullage.sim.apiserver.storage.context import seconds_of
from ullage.sim.apiserver.storage.json_bytes import JsonObject

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 31_536_000


def human_duration(seconds: float) -> str:
    """Two units where the first is small, one where it is not."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    return _long(whole)


def _long(whole: int) -> str:
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(whole: int, large: int, letter: str, small: int, second: str) -> str:
    rest = whole % large // small
    return f"{whole // large}{letter}{rest}{second}" if rest else f"{whole // large}{letter}"


def since(text: str | None, now: float) -> str:
    """From a timestamp to now."""
    if not text:
        return UNKNOWN
    try:
        return human_duration(now - seconds_of(text))
    except ValueError:
        return "<invalid>"


def age_of(obj: JsonObject, now: float) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)
