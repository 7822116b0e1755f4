"""Printers: the columns of a kind, and the cells of one object."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.sim.apiserver.storage.json_bytes import JsonObject

Cell = Any
"""A string, a number, a bool, or nothing."""
Cells = Callable[[JsonObject, float], list[Cell]]
"""Of an object at a moment: one for each column."""

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """`priority` 0 is always shown, 1 only in wide output."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def defined(self) -> JsonObject:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Printer:
    """Table form of one kind: its columns, and a function for the cells of an object."""

    columns: Sequence[TableColumn]
    cells: Cells


NAME = TableColumn("Name", format="name")
AGE = TableColumn("Age")


def columns(written: str) -> tuple[TableColumn, ...]:
    """From a short spelling, separated by `;`: `Name; Ready; Desired:integer; wide IP`."""
    found: list[TableColumn] = []
    for word in written.split(";"):
        text = word.strip()
        priority = 1 if text.startswith("wide ") else 0
        name, _, kind = text.removeprefix("wide ").partition(":")
        form = "name" if name == "Name" else ""
        found.append(TableColumn(name, kind or "string", form, priority))
    return tuple(found)


def name_of(obj: JsonObject) -> str:
    return str(obj["metadata"].get("name", ""))


def part(obj: JsonObject, *path: str) -> Any:
    """Value at a path, or an empty object."""
    found: Any = obj
    for step in path:
        found = (found or {}).get(step)
    return found if found is not None else {}


def number(obj: JsonObject, *path: str) -> int:
    found = part(obj, *path)
    return found if isinstance(found, int) else 0
