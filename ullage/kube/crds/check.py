"""Validation of objects that no API server has validated, by the marks and rules of their structs.

For manifests that are planned with offline, and for objects stored before a limit was tightened. Decoded structs are
validated: the decoder has checked the types. A field with its default value is not checked, so an empty text passes
as none where the API server would refuse it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect as shapes

from ullage.kube.cel import CelError, compiled
from ullage.kube.cel.macros import Evaluate, Variables
from ullage.kube.crds.rules import RULES

Check = Callable[[Any, str], list["FieldViolation"]]


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """A field and what is wrong with it."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def violations(thing: msgspec.Struct, at: str = "") -> list[FieldViolation]:
    """All that is wrong, in the order of the fields. `at` is where the struct is found in its object: `spec`."""
    return _check_of_struct(type(thing))(thing, at)


@dataclass(frozen=True, slots=True)
class _FieldCheck:
    name: str
    written_as: str
    default: Any
    required: bool
    check: Check | None


@cache
def _check_of_struct(kind: type[msgspec.Struct]) -> Check:
    fields = [one for field in msgspec.structs.fields(kind) if (one := _check_of_field(field)) is not None]
    rules = [(rule, compiled(rule.cel).run) for rule in RULES.get(kind, ()) if not rule.compares]

    def check(thing: Any, at: str) -> list[FieldViolation]:
        found: list[FieldViolation] = []
        missing = False
        for field in fields:
            value = getattr(thing, field.name)
            if value != field.default:
                if field.check is not None:
                    found += field.check(value, _join(at, field.written_as))
            elif field.required:
                missing = True
                found.append(FieldViolation(_join(at, field.written_as), "is required"))
        if rules and not missing:
            variables = {"self": _as_json(thing)}
            broken = (rule for rule, run in rules if not _holds(run, variables))
            found += [FieldViolation(_join(at, rule.field.removeprefix(".")), rule.message) for rule in broken]
        return found

    return check


def _holds(run: Evaluate, variables: Variables) -> bool:
    """True if a rule holds. One that cannot be evaluated does not, as on the API server."""
    try:
        return run(variables) is True
    except CelError:
        return False


def _as_json(value: Any) -> Any:
    """A value as the API server gives it to a rule: with the schema's defaults, and without what is not said.

    The schema has a default where ours is not empty; an empty value stands for none.
    """
    if isinstance(value, msgspec.Struct):
        fields = ((name, getattr(value, attribute), default) for name, attribute, default in _names(type(value)))
        return {name: _as_json(member) for name, member, default in fields if default or member != default}
    if isinstance(value, tuple | list):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    return value


@cache
def _names(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Name in JSON, attribute and default of each field; no default is never equal to a value."""
    return tuple((one.encode_name, one.name, _default(one)) for one in msgspec.structs.fields(kind))


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _check_of_field(field: msgspec.structs.FieldInfo) -> _FieldCheck | None:
    shape = shapes.type_info(field.type)
    check = _check_of(shape)
    required = isinstance(shape, shapes.Metadata) and bool((shape.extra or {}).get("required"))
    if check is None and not required:
        return None
    return _FieldCheck(field.name, field.encode_name, field.default, required, check)


def _check_of(shape: shapes.Type) -> Check | None:
    """None where anything goes."""
    match shape:
        case shapes.Metadata(type=inner, extra_json_schema=extra):
            return _both(_check_of(inner), _check_of_marks(extra or {}))
        case shapes.UnionType(types=types):
            structs = [one for one in types if isinstance(one, shapes.StructType)]
            return _check_of(structs[0]) if structs else None
        case shapes.StructType(cls=kind):
            return _check_of_struct(kind)
        case shapes.VarTupleType(item_type=item):
            return _each(_check_of(item), lambda values, at: ((v, f"{at}[{i}]") for i, v in enumerate(values)))
        case shapes.DictType(value_type=value):
            return _each(_check_of(value), lambda values, at: ((v, f"{at}.{k}") for k, v in values.items()))
        case _:
            return None


def _both(one: Check | None, other: Check | None) -> Check | None:
    if one is None or other is None:
        return one or other
    return lambda value, at: one(value, at) + other(value, at)


def _each(check: Check | None, places: Callable[[Any, str], Any]) -> Check | None:
    if check is None:
        return None
    return lambda values, at: [found for value, place in places(values, at) for found in check(value, place)]


def _check_of_marks(marks: dict[str, Any]) -> Check | None:
    laws = [law for key, limit in sorted(marks.items()) if (law := _law(key, limit)) is not None]
    if not laws:
        return None
    return lambda value, at: [FieldViolation(at, message) for holds, message in laws if not holds(value)]


def _law(key: str, limit: Any) -> tuple[Callable[[Any], bool], str] | None:
    """A mark as a test and what to say when it fails. Limits on numbers let text pass, and the other way round."""
    match key:
        case "minimum":
            return lambda value: isinstance(value, str) or value >= limit, f"must be at least {limit}"
        case "maximum":
            return lambda value: isinstance(value, str) or value <= limit, f"must be at most {limit}"
        case "enum":
            return lambda value: value in limit, f"must be one of {', '.join(limit)}"
        case "pattern":
            matches = re.compile(limit).fullmatch
            return lambda value: not isinstance(value, str) or matches(value) is not None, f"must match {limit}"
        case "minLength":
            return lambda value: not isinstance(value, str) or len(value) >= limit, "must not be empty"
        case "maxLength":
            return lambda value: not isinstance(value, str) or len(value) <= limit, f"must be at most {limit} long"
        case "maxItems" | "maxProperties":
            return lambda value: len(value) <= limit, f"must have at most {limit} entries"
        case "x-kubernetes-list-type" if limit == "set":
            return _all_different, "must not name anything twice"
        case _:
            return None


def _all_different(values: Sequence[Any]) -> bool:
    return len(set(values)) == len(values)


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at and name else at or name
