"""CEL's values: equality, order and arithmetic, where they differ from Python's."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ullage.kube.cel.errors import CelError

_LEAST, _MOST = -(2**63), 2**63 - 1
_ESCAPES = {"__underscores__": "__", "__dot__": ".", "__dash__": "-", "__slash__": "/"}
_ESCAPED = re.compile("|".join(_ESCAPES))


@dataclass(frozen=True, slots=True)
class CelType:
    """The type of a value, which is a value itself."""

    name: str


@dataclass(frozen=True, slots=True)
class CelOptional:
    """Something, or nothing: what `.?` gives."""

    found: bool
    value: Any = None


TYPES = {
    name: CelType(name)
    for name in ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type")
}
_BY_CLASS: tuple[tuple[type, str], ...] = (
    (bool, "bool"), (int, "int"), (float, "double"), (str, "string"), (bytes, "bytes"), (list, "list"), (dict, "map"),
    (CelType, "type"), (datetime, "google.protobuf.Timestamp"), (timedelta, "google.protobuf.Duration"),
)  # fmt: skip


def type_of(value: Any) -> CelType:
    name = next((name for kind, name in _BY_CLASS if isinstance(value, kind)), "null_type")
    return TYPES.get(name) or CelType(name)


def equal(one: Any, other: Any) -> bool:
    """Numbers compare across types; a bool is no number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def no_overload(name: str, *values: Any) -> CelError:
    return CelError(f"no such overload: {name}({', '.join(type_of(value).name for value in values)})")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def ordered(name: str, test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(one: Any, other: Any) -> bool:
        same = type(one) is type(other) and isinstance(one, str | bytes | bool | datetime | timedelta)
        if not same and not (is_number(one) and is_number(other)):
            raise no_overload(f"_{name}_", one, other)
        return bool(test(one, other))

    return compare


def contains(item: Any, container: Any) -> bool:
    if isinstance(container, dict):
        return any(equal(item, key) for key in container) if not isinstance(item, str) else item in container
    if isinstance(container, list):
        return any(equal(item, other) for other in container)
    raise no_overload("@in", item, container)


def _bounded(value: int) -> int:
    if not _LEAST <= value <= _MOST:
        raise CelError("integer overflow")
    return value


def add(one: Any, other: Any) -> Any:
    if type(one) is type(other) and isinstance(one, str | bytes | list | timedelta):
        return one + other  # both are of the same one of these
    if isinstance(one, datetime | timedelta) and isinstance(other, datetime | timedelta):
        if isinstance(one, datetime) and isinstance(other, datetime):
            raise no_overload("_+_", one, other)
        return one + other  # type: ignore[operator]  # a moment and a span, in either order
    return _calculated("+", one, other)


def subtract(one: Any, other: Any) -> Any:
    if isinstance(one, datetime | timedelta) and isinstance(other, datetime | timedelta):
        return one - other  # type: ignore[operator]  # moments and spans
    return _calculated("-", one, other)


def _calculated(name: str, one: Any, other: Any) -> Any:
    if type(one) is not type(other) or not is_number(one):
        raise no_overload(f"_{name}_", one, other)
    result = _ARITHMETIC[name](one, other)
    return _bounded(result) if isinstance(one, int) else result


def _divide(one: Any, other: Any) -> Any:
    if isinstance(one, float):
        return one / other if other else math.copysign(math.inf, one) if one else math.nan
    if other == 0:
        raise CelError("division by zero")
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) is (other < 0) else -quotient


def _modulo(one: Any, other: Any) -> Any:
    if isinstance(one, float):
        raise no_overload("_%_", one, other)
    if other == 0:
        raise CelError("modulus by zero")
    return int(math.fmod(one, other)) if abs(one) < 2**53 > abs(other) else one - _divide(one, other) * other


_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": _divide,
    "%": _modulo,
}


def arithmetic(name: str) -> Callable[[Any, Any], Any]:
    return lambda one, other: _calculated(name, one, other)


def field_name(written: str) -> str:
    """The property a name stands for: what cannot be a name in the language is escaped."""
    if "__" not in written:
        return written
    plain = _ESCAPED.sub(lambda match: _ESCAPES[match[0]], written)
    if plain == written and written.startswith("__") and written.endswith("__") and len(written) > 4:
        return written[2:-2]  # a keyword
    return plain
