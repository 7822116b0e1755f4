"""Functions of CEL, and those of Kubernetes' extensions that rules use."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any

from ullage.kube.cel.errors import CelError
from ullage.kube.cel.values import CelOptional, equal, is_number, no_overload, type_of

Function = Callable[..., Any]

_SPAN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def _needs(kind: Any, name: str, value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise no_overload(name, value)
    return value


def _size(value: Any) -> int:
    return len(_needs((str, bytes, list, dict), "size", value))


@lru_cache(512)
def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise CelError(f"error parsing regexp: {error}") from error


def _matches(text: Any, pattern: Any) -> bool:
    return _pattern(_needs(str, "matches", pattern)).search(_needs(str, "matches", text)) is not None


def _text_test(name: str, test: Callable[[str, str], bool]) -> Function:
    return lambda text, part: test(_needs(str, name, text), _needs(str, name, part))


def _to_int(value: Any) -> int:
    if isinstance(value, datetime):
        return int(value.timestamp())
    if is_number(value):
        return int(value)
    try:
        return int(_needs(str, "int", value))
    except ValueError:
        raise CelError(f"type conversion error from '{value}' to 'int'") from None


def _to_double(value: Any) -> float:
    try:
        return float(value) if is_number(value) else float(_needs(str, "double", value))
    except ValueError:
        raise CelError(f"type conversion error from '{value}' to 'double'") from None


def _to_string(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case bytes():
            return value.decode(errors="replace")
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%SZ")
        case timedelta():
            return f"{value.total_seconds():g}s"
        case int() | float() | str():
            return f"{value:g}" if isinstance(value, float) else str(value)
        case _:
            raise no_overload("string", value)


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "True": True, "TRUE": True, "t": True, "1": True}
    known |= {"false": False, "False": False, "FALSE": False, "f": False, "0": False}
    if value not in known:
        raise CelError(f"type conversion error from '{value}' to 'bool'")
    return known[value]


def _to_timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, int):
        return datetime.fromtimestamp(value, UTC)
    try:
        return datetime.fromisoformat(_needs(str, "timestamp", value).replace("Z", "+00:00"))
    except ValueError:
        raise CelError(f"type conversion error from '{value}' to 'google.protobuf.Timestamp'") from None


def _to_duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    text = _needs(str, "duration", value)
    unsigned = text.lstrip("+-")
    parts = list(_SPAN.finditer(unsigned))
    if unsigned != "0" and (not parts or "".join(part[0] for part in parts) != unsigned):
        raise CelError(f"type conversion error from '{text}' to 'google.protobuf.Duration'")
    seconds = sum(float(part[1]) * _SECONDS[part[2]] for part in parts)
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)


def _index_of(container: Any, item: Any, *, last: bool = False) -> int:
    if isinstance(container, str):
        return container.rfind(item) if last else container.find(item)
    places = [place for place, other in enumerate(_needs(list, "indexOf", container)) if equal(item, other)]
    return (places[-1] if last else places[0]) if places else -1


def _substring(text: Any, start: int, end: int | None = None) -> str:
    end = len(_needs(str, "substring", text)) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise CelError(f"index out of range: {start}")
    return str(text[start:end])


def _is_sorted(items: Any) -> bool:
    return all(one <= other for one, other in pairwise(items))


def _extreme(name: str, choose: Callable[[Any], Any]) -> Function:
    def pick(items: Any) -> Any:
        if not _needs(list, name, items):
            raise CelError(f"{name} called on empty list")
        return choose(items)

    return pick


def _value(given: Any) -> Any:
    if not _needs(CelOptional, "value", given).found:
        raise CelError("optional.none() dereference")
    return given.value


FUNCTIONS: Mapping[str, Function] = {
    "size": _size,
    "matches": _matches,
    "type": type_of,
    "dyn": lambda value: value,
    "int": _to_int,
    "uint": _to_int,
    "double": _to_double,
    "string": _to_string,
    "bool": _to_bool,
    "bytes": lambda value: value if isinstance(value, bytes) else _needs(str, "bytes", value).encode(),
    "timestamp": _to_timestamp,
    "duration": _to_duration,
}
"""Called as `f(x)`."""

METHODS: Mapping[str, Function] = {
    "size": _size,
    "matches": _matches,
    "startsWith": _text_test("startsWith", str.startswith),
    "endsWith": _text_test("endsWith", str.endswith),
    "contains": _text_test("contains", lambda text, part: part in text),
    "lowerAscii": lambda text: _needs(str, "lowerAscii", text).lower(),
    "upperAscii": lambda text: _needs(str, "upperAscii", text).upper(),
    "trim": lambda text: _needs(str, "trim", text).strip(),
    "replace": lambda text, old, new, *count: _needs(str, "replace", text).replace(old, new, *count),
    "split": lambda text, mark, *count: _needs(str, "split", text).split(mark, *(n - 1 for n in count)),
    "join": lambda items, mark="": mark.join(_needs(list, "join", items)),
    "substring": _substring,
    "charAt": lambda text, place: _substring(text, place, min(place + 1, len(text))),
    "indexOf": _index_of,
    "lastIndexOf": lambda container, item: _index_of(container, item, last=True),
    "find": lambda text, pattern: found[0] if (found := _pattern(pattern).search(text)) else "",
    "findAll": lambda text, pattern: [found[0] for found in _pattern(pattern).finditer(text)],
    "isSorted": _is_sorted,
    "sum": lambda items: sum(_needs(list, "sum", items)),
    "min": _extreme("min", min),
    "max": _extreme("max", max),
    "hasValue": lambda given: _needs(CelOptional, "hasValue", given).found,
    "value": _value,
    "orValue": lambda given, other: given.value if _needs(CelOptional, "orValue", given).found else other,
    "getFullYear": lambda time: _needs(datetime, "getFullYear", time).year,
    "getHours": lambda time: time.hour if isinstance(time, datetime) else int(time.total_seconds() // 3600),
    "getSeconds": lambda time: time.second if isinstance(time, datetime) else int(time.total_seconds()),
}
"""Called as `x.f(y)`."""
