"""Answers and watch lines as Tables."""

from collections.abc import Callable

from ullage.sim.apiserver.kinds.kind import ServedKind
from ullage.sim.apiserver.printing import cluster, content, workloads
from ullage.sim.apiserver.printing.column import Cell, Printer, columns, name_of
from ullage.sim.apiserver.printing.custom import custom_printer
from ullage.sim.apiserver.printing.pods import POD
from ullage.sim.apiserver.storage.json_bytes import JsonObject, decode, encode

API = "meta.k8s.io/v1"
NO_OBJECT, METADATA, OBJECT = "None", "Metadata", "Object"
"""Values of `includeObject`: the part of each object that goes with its row."""

_DONE = {
    "Succeeded": {"reason": "Succeeded", "message": "The pod has completed successfully."},
    "Failed": {"reason": "Failed", "message": "The pod failed."},
}


def _plain_cells(obj: JsonObject, _now: float) -> list[Cell]:
    return [name_of(obj), obj["metadata"].get("creationTimestamp") or "<unknown>"]


_PLAIN = Printer(columns("Name; Created At:date"), _plain_cells)
_PRINTERS: dict[str, Printer] = {"pods": POD, **workloads.PRINTERS, **cluster.PRINTERS, **content.PRINTERS}


def printer_of(kind: ServedKind) -> Printer:
    if kind.custom:
        return custom_printer(kind.columns)
    return _PRINTERS.get(kind.place, _PLAIN)


class TableMaker:
    """Turns what is said about objects of one kind into tables, for one client."""

    def __init__(self, kind: ServedKind, include: str, now: Callable[[], float]) -> None:
        self._printer = printer_of(kind)
        self._kind = kind
        self._include = include or METADATA
        self._now = now
        self._said_columns = False

    def whole(self, answer: JsonObject) -> JsonObject:
        """An object, or a list of them, as one table."""
        items = answer.get("items", [answer])
        said = answer["metadata"]
        metadata = {name: said[name] for name in ("resourceVersion", "continue", "remainingItemCount") if name in said}
        return self._table(metadata, [self._row(item) for item in items], first=True)

    def line(self, line: bytes) -> bytes:
        """A line of a watch: a table of one row, of which only the first names the columns."""
        event = decode(line)
        obj = event["object"]
        if event["type"] == "ERROR":
            return line
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        table = self._table(metadata, [self._row(obj)], first=not self._said_columns)
        self._said_columns = True
        return encode({"type": event["type"], "object": table})

    def _table(self, metadata: JsonObject, rows: list[JsonObject], *, first: bool) -> JsonObject:
        shown = [column.defined() for column in self._printer.columns] if first else None
        return {"kind": "Table", "apiVersion": API, "metadata": metadata, "columnDefinitions": shown, "rows": rows}

    def _row(self, obj: JsonObject) -> JsonObject:
        row: JsonObject = {"cells": self._printer.cells(obj, self._now())}
        if self._kind.place == "pods" and (done := _DONE.get((obj.get("status") or {}).get("phase", ""))):
            row["conditions"] = [{"type": "Completed", "status": "True", **done}]
        row["object"] = self._carried(obj)
        return row

    def _carried(self, obj: JsonObject) -> JsonObject | None:
        if self._include == NO_OBJECT:
            return None
        if self._include == OBJECT:
            return {"kind": self._kind.kind, "apiVersion": self._kind.api_version, **obj}
        return metadata_only(obj)


def metadata_only(obj: JsonObject) -> JsonObject:
    return {"kind": "PartialObjectMetadata", "apiVersion": API, "metadata": obj["metadata"]}
