"""Rows of a table, read column by column. Errors name file, row and column. Knows no format."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from ullage.errors import UserError
from ullage.model.duration import EXAMPLES, read_duration
from ullage.model.quantity import quantity
from ullage.sim.workload.columns import ColumnNames

T = TypeVar("T")
N = TypeVar("N", int, float)

LONGEST_SECONDS = 10 * 365 * 86_400.0
"""Longest time a list may ask for: ten years."""
LATEST_SECONDS = 1e11
"""Latest time of arrival, in seconds since whatever the list counts from: later ones are no seconds."""
MOST_BYTES = 1 << 60
_LEAST_BYTES = 1 << 20
"""Memory below it is a number without its unit."""
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]")
_SPOKEN_TIME = re.compile(r"([0-9.]+)\s*(s|m|h|d)(ecs?|econds?|ins?|inutes?|rs?|ours?|ays?)?", re.IGNORECASE)
_DELIMITERS = (",", ";", "\t", "|")


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

    def whole(self, column: str, default: int | None = None, least: int = 0, most: int | None = None) -> int:
        found = self._at_least(column, self._read(column, default, _whole, "a whole number"), least)
        return self._at_most(column, found, most)

    def number_of(
        self, column: str, default: float | None = None, least: float = 0.0, most: float | None = None
    ) -> float:
        found = self._at_least(column, self._read(column, default, _number, "a number"), least)
        return self._at_most(column, found, most)

    def maybe_number(self, column: str, most: float | None = None) -> float | None:
        return self.number_of(column, most=most) if self.given(column) else None

    def maybe_length(self, column: str) -> float | None:
        """A length of time in seconds: a number, or a duration such as 10m. None: the cell is empty."""
        if not self.given(column):
            return None
        found = self._at_least(column, self._read(column, None, _length, _EXPECTED_LENGTH), 0.0)
        if found > LONGEST_SECONDS:
            years = f"{found / 365 / 86_400:,.0f} years"
            raise self.wrong(
                column,
                f"is {self._cell(column)}, which is {years}; expected at most 10 years; leave it empty for a pod that "
                "runs until the end",
            )
        return found

    def instant(self, column: str) -> float:
        """A time: seconds since any beginning, a duration since then, or a date such as 2026-01-19T13:00:00Z."""
        found = self._at_least(column, self._read(column, None, _instant, _EXPECTED_INSTANT), 0.0)
        if found > LATEST_SECONDS:
            raise self.wrong(column, f"is {self._cell(column)}; expected seconds; are these milliseconds?")
        return found

    def amount(self, column: str, default: int | None = None) -> int:
        """A quantity of memory such as 64Gi, in bytes."""
        found = self._at_least(column, self._read(column, default, _amount, "a quantity such as 512Mi or 64Gi"), 0)
        if 0 < found < _LEAST_BYTES:
            cell = self._cell(column)
            raise self.wrong(column, f"is {cell}, which is {found} bytes; write {cell}Gi if these are gibibytes")
        return self._at_most(column, found, MOST_BYTES)

    def milli(self, column: str, default: int | None = None) -> int:
        """A quantity such as 500m, in thousandths."""
        found = self._read(column, default, _milli, "a quantity such as 8 or 500m")
        return self._at_most(column, self._at_least(column, found, 0), 1_000_000_000)

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
            raise self.wrong(column, f"is {value!r}; expected {expected}{_mended(value, expected)}") from error

    def _at_least(self, column: str, value: N, least: float) -> N:
        if value < least:
            raise self.wrong(column, f"is {self._cell(column)}; expected at least {least:g}")
        return value

    def _at_most(self, column: str, value: N, most: float | None) -> N:
        if most is not None and value > most:
            raise self.wrong(column, f"is {self._cell(column)}; expected at most {most:g}")
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


def delimiter_of(text: str) -> str:
    """Separator of cells: the one of comma, semicolon, tab and bar that the first line has most of."""
    first = text.partition("\n")[0]
    return max(_DELIMITERS, key=first.count)


def header_of(text: str) -> tuple[str, ...]:
    """Names of a CSV's columns."""
    return tuple(name.strip() for name in next(csv.reader(io.StringIO(text), delimiter=delimiter_of(text)), []))


def csv_rows(text: str, source: str, columns: ColumnNames) -> Iterator[TableRow | BadRow]:
    """Rows of a CSV, by the format's names of its columns. Raises UserError if its header is wrong."""
    reader = csv.reader(io.StringIO(text), delimiter=delimiter_of(text))
    header = [name.strip() for name in next(reader, [])]
    names = columns.resolve(header, f"{source}: line 1")
    number = 0
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            number += 1
            given = dict(zip(header, cells, strict=False))
            row = TableRow(source, number, reader.line_num, {names[key]: given[key] for key in given if key in names})
            if len(cells) != len(header):
                where = header[len(cells)] if len(cells) < len(header) else header[-1]
                yield row.wrong(where, f"the row has {len(cells)} cells, and the header {len(header)}")
            else:
                yield row
    except csv.Error as error:
        raise UserError(f"{source}: line {reader.line_num}: is not CSV: {error}") from error


def json_rows(text: str, source: str, columns: ColumnNames) -> Iterator[TableRow | BadRow]:
    """Rows of a file with a JSON object on each line."""
    number, any_of = 0, replace(columns, needed=())
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
            try:
                names = any_of.resolve(cells, f"{source}: row {number} (line {line})")
            except UserError as error:
                yield BadRow(str(error))
                continue
            yield TableRow(source, number, line, {names[key]: cells[key] for key in cells if key in names})
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


def _length(value: Any) -> float:
    found = read_duration(value)
    return _number(value) if found is None else found


def _instant(value: Any) -> float:
    if isinstance(value, str) and _DATE.match(value):
        date = datetime.fromisoformat(value)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    return _length(value)


_EXPECTED_LENGTH = f"seconds, or a duration such as {EXAMPLES}"
_EXPECTED_INSTANT = f"{_EXPECTED_LENGTH}, or a date such as 2026-01-19T13:00:00Z"


def _mended(value: Any, expected: str) -> str:
    """Advice on the spelling, if it is plain what was meant."""
    text = str(value).strip()
    if expected in (_EXPECTED_LENGTH, _EXPECTED_INSTANT) and (said := _SPOKEN_TIME.fullmatch(text)):
        return f"; write {said[1]}{said[2].lower()}"
    if re.fullmatch(r"-?[0-9]+,[0-9]+", text):
        return f"; write {text.replace(',', '.')}"
    return ""


def _amount(value: Any) -> int:
    return int(quantity(value))


def _milli(value: Any) -> int:
    return int(quantity(value) * 1000)
