"""Rows of a table, read column by column. Errors name file, row and column. Knows no format."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from ullage.errors import UserError
from ullage.model.quantity import quantity

T = TypeVar("T")
N = TypeVar("N", int, float)


class BadRows(StrEnum):
    """Handling of rows that cannot be read."""

    STOP = "stop"
    SKIP = "skip"


class BadRow(UserError):
    """A row that cannot be read."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row. Missing columns count as empty; `number` counts rows, `line` lines of the file."""

    source: str
    number: int
    line: int
    cells: Mapping[str, Any]

    def wrong(self, column: str, what: str) -> BadRow:
        return BadRow(f"{self.source}: row {self.number} (line {self.line}), column {column}: {what}")

    def given(self, column: str) -> bool:
        return self._cell(column) not in ("", None)

    def text(self, column: str, default: str | None = None) -> str:
        return self._read(column, default, str, "a text")

    def whole(self, column: str, default: int | None = None, least: int = 0) -> int:
        return self._at_least(column, self._read(column, default, _whole, "a whole number"), least)

    def number_of(self, column: str, default: float | None = None, least: float = 0.0) -> float:
        return self._at_least(column, self._read(column, default, _number, "a number"), least)

    def maybe_number(self, column: str) -> float | None:
        return self.number_of(column) if self.given(column) else None

    def amount(self, column: str, default: int | None = None) -> int:
        """A quantity such as 64Gi, in whole units."""
        return self._at_least(column, self._read(column, default, _amount, "a quantity such as 8 or 64Gi"), 0)

    def milli(self, column: str, default: int | None = None) -> int:
        """A quantity such as 500m, in thousandths."""
        return self._at_least(column, self._read(column, default, _milli, "a quantity such as 8 or 500m"), 0)

    def words(self, column: str) -> tuple[str, ...]:
        """A list, or words between bars."""
        value = self._cell(column)
        if isinstance(value, list):
            return tuple(dict.fromkeys(str(word) for word in value if word))
        return tuple(dict.fromkeys(word for word in str(value or "").split("|") if word))

    def _cell(self, column: str) -> Any:
        value = self.cells.get(column)
        return value.strip() if isinstance(value, str) else value

    def _read(self, column: str, default: T | None, read: Callable[[Any], T], expected: str) -> T:
        value = self._cell(column)
        if value in ("", None):
            if default is None:
                raise self.wrong(column, f"is empty; expected {expected}")
            return default
        try:
            return read(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise self.wrong(column, f"is {value!r}; expected {expected}") from error

    def _at_least(self, column: str, value: N, least: float) -> N:
        if value < least:
            raise self.wrong(column, f"is {value}; expected at least {least:g}")
        return value


@dataclass(slots=True)
class RowReader:
    """Reads rows one by one. Stops at a bad row or skips it, as set."""

    bad_rows: BadRows
    skipped: list[str] = field(default_factory=list)

    def take(self, rows: Iterator[TableRow | BadRow], read: Callable[[TableRow], T]) -> list[T]:
        """All rows that could be read. Raises BadRow if bad rows are to stop the reading."""
        taken: list[T] = []
        for row in rows:
            try:
                if isinstance(row, BadRow):
                    raise row
                taken.append(read(row))
            except BadRow as bad:
                if self.bad_rows is BadRows.STOP:
                    raise BadRow(f"{bad}; mend it, or leave such rows out with --bad-rows skip") from bad
                self.skipped.append(str(bad))
        return taken


def read_table(path: str) -> str:
    """A file's text. Raises UserError."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or 'cannot be read').lower()}; check the path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 text (byte {error.start})") from error


def header_of(text: str) -> tuple[str, ...]:
    """Names of a CSV's columns."""
    return tuple(name.strip() for name in next(csv.reader(io.StringIO(text)), []))


def csv_rows(text: str, source: str, needed: Sequence[str]) -> Iterator[TableRow | BadRow]:
    """Rows of a CSV. Raises UserError if its header lacks one of the needed columns."""
    reader = csv.reader(io.StringIO(text))
    header = [name.strip() for name in next(reader, [])]
    missing = [name for name in needed if name not in header]
    if missing:
        has, wanted = ", ".join(header) or "nothing", ", ".join(needed)
        raise UserError(f"{source}: line 1: the column {missing[0]} is missing; it has {has}; needed: {wanted}")
    number = 0
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            number += 1
            row = TableRow(source, number, reader.line_num, dict(zip(header, cells, strict=False)))
            if len(cells) != len(header):
                where = header[len(cells)] if len(cells) < len(header) else header[-1]
                yield row.wrong(where, f"the row has {len(cells)} cells, and the header {len(header)}")
            else:
                yield row
    except csv.Error as error:
        raise UserError(f"{source}: line {reader.line_num}: is not CSV: {error}") from error


def json_rows(text: str, source: str) -> Iterator[TableRow | BadRow]:
    """Rows of a file with a JSON object on each line."""
    number = 0
    for line, written in enumerate(text.splitlines(), start=1):
        if not written.strip():
            continue
        number += 1
        try:
            cells = json.loads(written)
        except ValueError as error:
            yield BadRow(f"{source}: row {number} (line {line}): is not JSON: {error}")
            continue
        if isinstance(cells, dict):
            yield TableRow(source, number, line, cells)
        else:
            yield BadRow(f"{source}: row {number} (line {line}): is not an object")


def _whole(value: Any) -> int:
    number = _number(value)
    if number != int(number):
        raise ValueError(value)
    return int(number)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError(value)
    number = float(value)
    if not float("-inf") < number < float("inf"):
        raise ValueError(value)
    return number


def _amount(value: Any) -> int:
    return int(quantity(value))


def _milli(value: Any) -> int:
    return int(quantity(value) * 1000)
