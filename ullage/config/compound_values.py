"""Value types of settings made of others: optional values, lists, mappings and records. Pure, like `values`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ullage.config.values import ValueType, meant, spoken

T = TypeVar("T")


class NestedValueError(ValueError):
    """A bad value inside of a mapping or record, with its path there. Prints as `batch.policy: is …`."""

    def __init__(self, name: str, error: ValueError) -> None:
        self.path: str = f"{name}.{error.path}" if isinstance(error, NestedValueError) else name
        self.what: str = error.what if isinstance(error, NestedValueError) else str(error)
        super().__init__(f"{self.path}: {self.what}")


@dataclass(frozen=True, slots=True)
class Nullable(ValueType[T | None]):
    """A value or none at all, which `null` says."""

    inner: ValueType[T]
    null_means: str = "no limit"

    @property
    def metavar(self) -> str:  # type: ignore[override]  # a constant elsewhere
        return self.inner.metavar

    @property
    def allowed(self) -> str:
        return f"{self.inner.allowed}, or null for {self.null_means}"

    def read(self, raw: Any) -> T | None:
        try:
            return None if raw is None else self.inner.read(raw)
        except ValueError as error:
            raise ValueError(f"{error}, or null for {self.null_means}") from error

    def parse(self, text: str) -> T | None:
        try:
            return None if text == "null" else self.inner.parse(text)
        except ValueError as error:
            raise ValueError(f"{error}, or null for {self.null_means}") from error

    def write(self, value: T | None) -> Any:
        return None if value is None else self.inner.write(value)


@dataclass(frozen=True, slots=True)
class Texts(ValueType[tuple[str, ...]]):
    """A list of texts."""

    metavar = "TEXT"
    repeated = True

    @property
    def allowed(self) -> str:
        return "a list of texts"

    def read(self, raw: Any) -> tuple[str, ...]:
        if not isinstance(raw, list | tuple):
            raise self.refuse(raw)
        for one in raw:
            if not isinstance(one, str) or not one:
                raise ValueError(f"has {spoken(one)}; allowed: {self.allowed}")
        return tuple(raw)

    def parse(self, text: str) -> tuple[str, ...]:
        return self.read(text.split(","))

    def parse_all(self, texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(one for text in texts for one in self.parse(text))

    def write(self, value: tuple[str, ...]) -> Any:
        return list(value)


@dataclass(frozen=True, slots=True)
class SubsetOf(ValueType[tuple[str, ...]]):
    """Some words of a closed list, each at most once, in the list's order."""

    words: tuple[str, ...]

    metavar = "WORDS"

    @property
    def allowed(self) -> str:
        return f"a list of {', '.join(self.words)}"

    def read(self, raw: Any) -> tuple[str, ...]:
        if not isinstance(raw, list | tuple):
            raise self.refuse(raw)
        for word in raw:
            if word not in self.words:
                raise ValueError(f"has {spoken(word)}; allowed: {self.allowed}{meant(str(word), self.words)}")
        return tuple(word for word in self.words if word in raw)

    def parse(self, text: str) -> tuple[str, ...]:
        return self.read([word for word in text.split(",") if word])

    def write(self, value: tuple[str, ...]) -> Any:
        return list(value)


@dataclass(frozen=True, slots=True)
class MapOf(ValueType[Mapping[str, T]]):
    """Values of one type by free names. Sources add up: a stronger one replaces and adds single names."""

    inner: ValueType[T]
    name: str = "NAME"

    repeated = True

    @property
    def metavar(self) -> str:  # type: ignore[override]  # a constant elsewhere
        if isinstance(self.inner, MapOf):
            return f"{self.name}.{self.inner.metavar}"
        return f"{self.name}=VALUE"

    @property
    def allowed(self) -> str:
        return f"{self.name}: {self.inner.allowed}"

    def read(self, raw: Any) -> Mapping[str, T]:
        if not isinstance(raw, Mapping):
            raise self.refuse(raw)
        found: dict[str, T] = {}
        for name, value in raw.items():
            try:
                found[str(name)] = self.inner.read(value)
            except ValueError as error:
                raise NestedValueError(name, error) from error
        return found

    def parse(self, text: str) -> Mapping[str, T]:
        """Read JSON, or one NAME=VALUE; a mapping of mappings is NAME.KEY=VALUE."""
        if text.lstrip().startswith("{"):
            return self.read(_json(text))
        nested = isinstance(self.inner, MapOf)
        head, mark, rest = text.partition("." if nested else "=")
        if not (head and mark and rest) or (nested and not _is_pair(rest)):
            raise ValueError(f"{text!r} is not {self.metavar}")
        try:
            return {head: self.inner.parse(rest)}
        except ValueError as error:
            raise NestedValueError(head, error) from error

    def merge(self, below: Mapping[str, T], above: Mapping[str, T]) -> Mapping[str, T]:
        found = dict(below)
        for name, value in above.items():
            found[name] = self.inner.merge(below[name], value) if name in below else value
        return found

    def write(self, value: Mapping[str, T]) -> Any:
        return {name: self.inner.write(value[name]) for name in sorted(value)}


@dataclass(frozen=True, slots=True)
class FieldsOf(ValueType[Mapping[str, Any]]):
    """Fields of a record, by their names in files. Read as a mapping of attributes; the caller makes the record."""

    fields: tuple[tuple[str, str, ValueType[Any]], ...]
    """Name in files, attribute, and type of each field."""
    needed: tuple[str, ...] = ()

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.fields)

    @property
    def allowed(self) -> str:
        verb = "is" if len(self.needed) == 1 else "are"
        needed = f", of which {' and '.join(self.needed)} {verb} needed" if self.needed else ""
        return f"{{{', '.join(self._names)}}}{needed}"

    def read(self, raw: Any) -> Mapping[str, Any]:
        if not isinstance(raw, Mapping):
            raise ValueError(f"is {spoken(raw)}; allowed: a mapping with {', '.join(self._names)}")
        known = {name: (attribute, values) for name, attribute, values in self.fields}
        found: dict[str, Any] = {}
        for said, value in raw.items():
            if said not in known:
                near = meant(str(said), self._names)
                what = f"there is no such field; allowed: {', '.join(self._names)}{near}"
                raise NestedValueError(str(said), ValueError(what))
            attribute, values = known[said]
            try:
                found[attribute] = values.read(value)
            except ValueError as error:
                raise NestedValueError(said, error) from error
        for needed in self.needed:  # last: a name that is spelt wrong is told as such
            if needed not in raw:
                raise NestedValueError(needed, ValueError("is missing"))
        return found

    def write(self, value: Any) -> Any:
        """Return the fields of a record as they would stand in a file."""
        return {name: values.write(getattr(value, attribute)) for name, attribute, values in self.fields}


def _is_pair(text: str) -> bool:
    name, mark, value = text.partition("=")
    return bool(name and mark and value)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from error
