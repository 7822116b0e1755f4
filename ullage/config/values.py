"""Value types of settings: reading from a file or from one text, allowed values, and writing back.

A value type knows nothing of files or of the settings there are. A bad value is a ValueError that says what is allowed.
Types made of others are in `compound_values`. Pure: no files, no clock.
"""

import difflib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Generic, TypeVar

from ullage.model.duration import EXAMPLES, read_duration, write_duration
from ullage.model.provisioner import MICROS
from ullage.model.units import Seconds

T = TypeVar("T")


class ValueType(Generic[T]):
    """Type of a setting's value."""

    metavar: str = "VALUE"
    """Placeholder of the value in the help of its flag."""
    repeated: bool = False
    """The flag may be given several times."""

    @property
    @abstractmethod
    def allowed(self) -> str:
        """Allowed values in words, for documentation and errors."""

    @abstractmethod
    def read(self, raw: Any) -> T:
        """The value meant. Raises ValueError."""

    def parse(self, text: str) -> T:
        """The value of one text: of a flag or an environment variable. Raises ValueError."""
        try:
            raw = json.loads(text)
        except ValueError:
            raw = text
        return self.read(raw)

    def parse_all(self, texts: Sequence[str]) -> T:
        """The value of a flag that was given once or more. Raises ValueError."""
        found = self.parse(texts[0])
        for text in texts[1:]:
            found = self.merge(found, self.parse(text))
        return found

    def merge(self, below: T, above: T) -> T:
        """Return the value where a weaker source says `below` and a stronger one `above`."""
        del below
        return above

    def takes_live(self, before: T, after: T) -> bool:
        """True if a running process can take over this change of a live setting."""
        del before, after
        return True

    def write(self, value: T) -> Any:
        """Return the value as it would stand in a file."""
        return value

    def refuse(self, raw: Any, near: str = "") -> ValueError:
        """Error for a value that is not allowed."""
        return ValueError(f"is {spoken(raw)}; allowed: {self.allowed}{near}")


@dataclass(frozen=True, slots=True)
class Boolean(ValueType[bool]):
    """True or false."""

    @property
    def allowed(self) -> str:
        return "true or false"

    def read(self, raw: Any) -> bool:
        if not isinstance(raw, bool):
            raise self.refuse(raw)
        return raw


@dataclass(frozen=True, slots=True)
class OneOf(ValueType[str]):
    """One of a closed list of words."""

    words: tuple[str, ...]

    @property
    def metavar(self) -> str:  # type: ignore[override]  # a constant elsewhere
        return f"[{'|'.join(self.words)}]"

    @property
    def allowed(self) -> str:
        return ", ".join(self.words)

    def read(self, raw: Any) -> str:
        if raw in self.words and isinstance(raw, str):
            return str(raw)
        raise self.refuse(raw, meant(str(raw), self.words))

    def parse(self, text: str) -> str:
        return self.read(text)


@dataclass(frozen=True, slots=True)
class IntRange(ValueType[int]):
    """A whole number between two bounds, both included."""

    least: int = 0
    most: int | None = None

    metavar = "INTEGER"

    @property
    def allowed(self) -> str:
        return f"a whole number, {_bounds(self.least, self.most)}"

    def read(self, raw: Any) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or not _within(raw, self.least, self.most):
            raise self.refuse(raw)
        return raw


@dataclass(frozen=True, slots=True)
class Fraction(ValueType[float]):
    """A part of a whole."""

    metavar = "FRACTION"

    @property
    def allowed(self) -> str:
        return "a number from 0 to 1"

    def read(self, raw: Any) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= 1:
            raise self.refuse(raw)
        return float(raw)


@dataclass(frozen=True, slots=True)
class PositiveFloat(ValueType[float]):
    """Any number above zero."""

    metavar = "NUMBER"

    @property
    def allowed(self) -> str:
        return "a number above 0"

    def read(self, raw: Any) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 < raw < float("inf"):
            raise self.refuse(raw)
        return float(raw)


@dataclass(frozen=True, slots=True)
class Duration(ValueType[Seconds]):
    """A length of time, in the grammar of `model.duration`."""

    least: float = 0.0

    metavar = "DURATION"

    @property
    def allowed(self) -> str:
        words = f"a time such as {EXAMPLES}, or a number of seconds"
        return f"{words}, at least {write_duration(Seconds(self.least))}" if self.least else words

    def read(self, raw: Any) -> Seconds:
        seconds = read_duration(raw)
        if seconds is None or seconds < self.least:
            raise self.refuse(raw)
        return seconds

    def write(self, value: Seconds) -> Any:
        return write_duration(value)


@dataclass(frozen=True, slots=True)
class Price(ValueType[int]):
    """Millionths of the currency per hour."""

    metavar = "PRICE"

    @property
    def allowed(self) -> str:
        return "a price such as 1500 or 98.32"

    def read(self, raw: Any) -> int:
        try:
            exact = Decimal(str(raw)) if isinstance(raw, int | float | str) and not isinstance(raw, bool) else None
        except InvalidOperation:
            exact = None
        if exact is None or not exact.is_finite() or exact < 0:
            raise self.refuse(raw)
        return int(exact * MICROS)

    def parse(self, text: str) -> int:
        return self.read(text)

    def write(self, value: int) -> Any:
        exact = Decimal(value) / MICROS
        return int(exact) if exact == exact.to_integral_value() else float(exact)


@dataclass(frozen=True, slots=True)
class Text(ValueType[str]):
    """Any text but an empty one."""

    metavar = "TEXT"

    @property
    def allowed(self) -> str:
        return "a text"

    def read(self, raw: Any) -> str:
        if not isinstance(raw, str) or not raw:
            raise self.refuse(raw)
        return raw

    def parse(self, text: str) -> str:
        return self.read(text)


def meant(word: str, words: tuple[str, ...]) -> str:
    """`; did you mean x?`, or nothing where nothing is near."""
    near = nearest(word, words)
    return f"; did you mean {near}?" if near else ""


def nearest(word: str, words: tuple[str, ...]) -> str:
    """The word that is nearly this one; empty where nothing is near."""
    folded = {one.lower(): one for one in words}
    near = difflib.get_close_matches(word.lower(), list(folded), n=1, cutoff=0.6)
    return folded[near[0]] if near else ""


def spoken(raw: Any) -> str:
    """A value as an error names it."""
    if raw is None:
        return "empty"
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, Mapping):
        return "a mapping"
    if isinstance(raw, list | tuple):
        return "a list"
    return repr(raw)


def _bounds(least: float, most: float | None) -> str:
    return f"at least {least:g}" if most is None else f"from {least:g} to {most:g}"


def _within(value: float, least: float, most: float | None) -> bool:
    return value >= least and (most is None or value <= most)
