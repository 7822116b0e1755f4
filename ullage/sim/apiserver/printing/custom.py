"""Custom objects as rows: the columns their definition asks for."""

from collections.abc import Callable, Sequence
from typing import Any

from ullage.sim.apiserver.printing.ages import since
from ullage.sim.apiserver.printing.column import NAME, Cell, Printer, TableColumn, name_of
from ullage.sim.apiserver.printing.jsonpath import compiled
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode

_AGE: JsonObject = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}

Find = Callable[[Any], list[Any]]


def custom_printer(asked: Sequence[JsonObject]) -> Printer:
    """From `additionalPrinterColumns`; without any, the age is shown."""
    listed = list(asked) or [_AGE]
    finders: list[tuple[str, Find]] = [(one["type"], compiled(one["jsonPath"])) for one in listed]

    def cells(obj: JsonObject, now: float) -> list[Cell]:
        return [name_of(obj), *(_cell(kind, find(obj), now) for kind, find in finders)]

    return Printer((NAME, *(_column(one) for one in listed)), cells)


def _column(one: JsonObject) -> TableColumn:
    return TableColumn(
        name=one["name"],
        type=one["type"],
        format=one.get("format", ""),
        priority=one.get("priority", 0),
        description=one.get("description", ""),
    )


def _cell(kind: str, found: list[Any], now: float) -> Cell:
    if not found or found[0] is None:
        return None
    first = found[0]
    match kind:
        case "integer":
            return int(first) if _is_number(first) else None
        case "number":
            return first if _is_number(first) else None
        case "boolean":
            return first if isinstance(first, bool) else None
        case "date":
            return since(first, now) if isinstance(first, str) else None
        case _:
            return " ".join(_text(value) for value in found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return encode(_sorted(value)).decode()
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _sorted(value: Any) -> Any:
    """With the members of objects in order, as Go writes maps."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
