"""Kinds of values a setting may have: how each is read from YAML, what is allowed, and how it is written back.

A kind knows nothing of files or of the settings there are. What is wrong is a ValueError that says what is allowed.
"""

import difflib
import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Generic, TypeVar

from ullage.model.provisioner import MICROS

T = TypeVar("T")

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")


class ValueType(Generic[T]):
    """Type of a setting's value."""

    @property
    @abstractmethod
    def allowed(self) -> str:
        """Allowed values in words, for documentation and errors."""

    @abstractmethod
    def read(self, raw: Any) -> T:
        """The value meant. Raises ValueError."""

    def write(self, value: T) -> Any:
        """Return the value as it would stand in a file."""
        return value


@dataclass(frozen=True, slots=True)
class Boolean(ValueType[bool]):
    """True or false."""

    @property
    def allowed(self) -> str:
        return "true or false"

    def read(self, raw: Any) -> bool:
        if not isinstance(raw, bool):
            raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}")
        return raw


@dataclass(frozen=True, slots=True)
class OneOf(ValueType[str]):
    """One of a closed list of words."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return ", ".join(self.words)

    def read(self, raw: Any) -> str:
        if raw in self.words and isinstance(raw, str):
            return raw
        raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}{meant(str(raw), self.words)}")


@dataclass(frozen=True, slots=True)
class IntRange(ValueType[int]):
    """A whole number between two bounds, both included."""

    least: int = 0
    most: int | None = None

    @property
    def allowed(self) -> str:
        return f"a whole number, {_bounds(self.least, self.most)}"

    def read(self, raw: Any) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or not _within(raw, self.least, self.most):
            raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}")
        return raw


@dataclass(frozen=True, slots=True)
class Fraction(ValueType[float]):
    """A part of a whole."""

    @property
    def allowed(self) -> str:
        return "a number from 0 to 1"

    def read(self, raw: Any) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= 1:
            raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}")
        return float(raw)


@dataclass(frozen=True, slots=True)
class PositiveFloat(ValueType[float]):
    """Any number above zero."""

    @property
    def allowed(self) -> str:
        return "a number above 0"

    def read(self, raw: Any) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 < raw < float("inf"):
            raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}")
        return float(raw)


@dataclass(frozen=True, slots=True)
class Duration(ValueType[float]):
    """Seconds."""

    least: float = 0.0

    @property
    def allowed(self) -> str:
        words = "a time such as 30s, 10m or 1h30m, or a number of seconds"
        return f"{words}, at least {written_duration(self.least)}" if self.least else words

    def read(self, raw: Any) -> float:
        seconds = read_duration(raw)
        if seconds is None or seconds < self.least:
            raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}")
        return seconds

    def write(self, value: float) -> Any:
        return written_duration(value)


@dataclass(frozen=True, slots=True)
class Price(ValueType[int]):
    """Millionths of the currency per hour."""

    @property
    def allowed(self) -> str:
        return "a price such as 1500 or 98.32"

    def read(self, raw: Any) -> int:
        try:
            exact = Decimal(str(raw)) if isinstance(raw, int | float | str) and not isinstance(raw, bool) else None
        except InvalidOperation:
            exact = None
        if exact is None or not exact.is_finite() or exact < 0:
            raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}")
        return int(exact * MICROS)

    def write(self, value: int) -> Any:
        exact = Decimal(value) / MICROS
        return int(exact) if exact == exact.to_integral_value() else float(exact)


@dataclass(frozen=True, slots=True)
class Text(ValueType[str]):
    """Any text but an empty one."""

    @property
    def allowed(self) -> str:
        return "a text"

    def read(self, raw: Any) -> str:
        if not isinstance(raw, str) or not raw:
            raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}")
        return raw


@dataclass(frozen=True, slots=True)
class Nullable(ValueType[T | None]):
    """A value or none at all, which `null` says."""

    kind: ValueType[T]

    @property
    def allowed(self) -> str:
        return f"{self.kind.allowed}, or null for no limit"

    def read(self, raw: Any) -> T | None:
        try:
            return None if raw is None else self.kind.read(raw)
        except ValueError as error:
            raise ValueError(f"{error}, or null for no limit") from error

    def write(self, value: T | None) -> Any:
        return None if value is None else self.kind.write(value)


@dataclass(frozen=True, slots=True)
class SubsetOf(ValueType[tuple[str, ...]]):
    """Some words of a closed list, each at most once, in the list's order."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return f"a list of {', '.join(self.words)}"

    def read(self, raw: Any) -> tuple[str, ...]:
        if not isinstance(raw, list | tuple):
            raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}")
        for word in raw:
            if word not in self.words:
                raise ValueError(f"has {spoken(word)}; allowed: {self.allowed}{meant(str(word), self.words)}")
        return tuple(word for word in self.words if word in raw)

    def write(self, value: tuple[str, ...]) -> Any:
        return list(value)


@dataclass(frozen=True, slots=True)
class MapOf(ValueType[Mapping[str, T]]):
    """Values of one kind by free names."""

    kind: ValueType[T]
    name: str = "NAME"

    @property
    def allowed(self) -> str:
        return f"{self.name}: {self.kind.allowed}"

    def read(self, raw: Any) -> Mapping[str, T]:
        if not isinstance(raw, Mapping):
            raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}")
        found: dict[str, T] = {}
        for name, value in raw.items():
            try:
                found[str(name)] = self.kind.read(value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        return found

    def write(self, value: Mapping[str, T]) -> Any:
        return {name: self.kind.write(value[name]) for name in sorted(value)}


def read_duration(raw: Any) -> float | None:
    """Seconds, or None where that is no time."""
    if isinstance(raw, bool):
        return None
    if isinstance(raw, int | float):
        return float(raw) if 0 <= raw < float("inf") else None
    if not isinstance(raw, str):
        return None
    if re.fullmatch(r"\d+(?:\.\d+)?", raw):
        return float(raw)
    if not _DURATION.fullmatch(raw):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(raw))


def written_duration(seconds: float) -> str:
    """The shortest way to say it exactly: 90 s is 90s, 600 s is 10m."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % _UNITS[unit] == 0:
            return f"{int(seconds // _UNITS[unit])}{unit}"
    if seconds == int(seconds):
        return f"{int(seconds)}s"
    return f"{seconds * 1000:g}ms" if seconds < 1 else f"{seconds:g}s"


def meant(word: str, words: tuple[str, ...]) -> str:
    """`; did you mean x?`, or nothing where nothing is near."""
    folded = {one.lower(): one for one in words}
    near = difflib.get_close_matches(word.lower(), list(folded), n=1, cutoff=0.6)
    return f"; did you mean {folded[near[0]]}?" if near else ""


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
