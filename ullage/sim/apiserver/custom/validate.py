"""Validation against a structural schema, in the API server's words. Rules between fields are in `cel_rules`."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ullage.sim.apiserver.custom.formats import fits_format
from ullage.sim.apiserver.request.field_errors import (
    FieldError,
    duplicate,
    required,
    too_long,
    too_many_items,
    wrong,
    wrong_type,
)
from ullage.sim.apiserver.request.field_errors import shown as quoted
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode

_INT32 = 2**31
_JUNCTORS = frozenset(("anyOf", "oneOf", "allOf", "not"))
_PLAIN_TYPES: Mapping[str, type] = {"object": dict, "array": list, "string": str, "boolean": bool}


def check(value: Any, schema: JsonObject, at: str) -> list[FieldError]:
    """All field errors of a value and of its parts."""
    if value is None and schema.get("nullable"):
        return []
    if problem := _check_type(value, schema, at):
        return problem
    found = _check_enum(value, schema, at) if "enum" in schema else []
    if isinstance(value, dict):
        found += _check_object(value, schema, at)
    elif isinstance(value, list):
        found += _check_list(value, schema, at)
    elif isinstance(value, str):
        found += _check_string(value, schema, at)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found += _check_number(value, schema, at)
    return found if _JUNCTORS.isdisjoint(schema) else found + _check_junctors(value, schema, at)


def _check_type(value: Any, schema: JsonObject, at: str) -> list[FieldError]:
    wanted = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        wanted, fits = "integer,string", isinstance(value, int | str) and not isinstance(value, bool)
    elif wanted is None:
        return []
    else:
        fits = _is(value, wanted)
    if fits:
        return []
    found = json_type(value)
    return [wrong_type(at, found, f"{at} in body must be of type {wanted}: {quoted(found)}")]


def _is(value: Any, wanted: str) -> bool:
    if (plain := _PLAIN_TYPES.get(wanted)) is not None:
        return isinstance(value, plain)
    match wanted:
        case "integer":
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            return True


def json_type(value: Any) -> str:
    """Type of a value, as the server names it."""
    names: list[tuple[type | tuple[type, ...], str]] = [
        (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"),
    ]  # fmt: skip
    return next((name for kind, name in names if isinstance(value, kind)), "null")


def _check_enum(value: Any, schema: JsonObject, at: str) -> list[FieldError]:
    allowed = schema.get("enum")
    if not allowed or any(item == value and type(item) is type(value) for item in allowed):
        return []
    listed = ", ".join(quoted(item if isinstance(item, str) else encode(item).decode()) for item in allowed)
    return [FieldError(at, "FieldValueNotSupported", f"Unsupported value: {quoted(value)}: supported values: {listed}")]


def _check_object(value: JsonObject, schema: JsonObject, at: str) -> list[FieldError]:
    found: list[FieldError] = []
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and len(value) < least:
        found.append(wrong(at, len(value), f"{at} in body should have at least {least} properties"))
    if most is not None and len(value) > most:
        found.append(too_many_items(at, len(value), most))
    found += [required(_join(at, name)) for name in schema.get("required") or [] if name not in value]
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name in sorted(value):
        if name in properties:
            found += check(value[name], properties[name], _join(at, name))
        elif isinstance(others, dict):
            found += check(value[name], others, _join(at, name))
    return found


def _check_list(value: list[Any], schema: JsonObject, at: str) -> list[FieldError]:
    found: list[FieldError] = []
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        found.append(wrong(at, len(value), f"{at} in body should have at least {least} items"))
    if most is not None and len(value) > most:
        found.append(too_many_items(at, len(value), most))
    if isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            found += check(item, schema["items"], f"{at}[{index}]")
    return found + _check_repeats(value, schema, at) if "x-kubernetes-list-type" in schema else found


def _check_repeats(value: list[Any], schema: JsonObject, at: str) -> list[FieldError]:
    """Sets have each item once, maps have each key once."""
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    if kind not in ("set", "map"):
        return []
    found: list[FieldError] = []
    seen: list[Any] = []
    for index, item in enumerate(value):
        identity = item
        if kind == "map":
            if not isinstance(item, dict):
                continue
            identity = {key: item[key] for key in keys if key in item}
        if identity in seen:
            found.append(duplicate(f"{at}[{index}]", identity))
        seen.append(identity)
    return found


def _check_string(value: str, schema: JsonObject, at: str) -> list[FieldError]:
    """The first rule the string breaks; the server stops there."""
    least, most = schema.get("minLength"), schema.get("maxLength")
    if most is not None and len(value) > most:
        return [too_long(at, most)]
    if least is not None and len(value) < least:
        return [wrong(at, value, f"{at} in body should be at least {least} chars long")]
    pattern = schema.get("pattern")
    if pattern and _pattern(pattern).search(value) is None:
        return [wrong(at, value, f"{at} in body should match '{pattern}'")]
    name = schema.get("format")
    if name and not fits_format(name, value):
        return [wrong_type(at, value, f"{at} in body must be of type {name}: {quoted(value)}")]
    return []


@lru_cache(1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _check_number(value: float, schema: JsonObject, at: str) -> list[FieldError]:
    found: list[FieldError] = []
    if schema.get("format") == "int32" and not -_INT32 <= value < _INT32:
        message = f"Checked value must be of type integer with format int32 in {at}"
        return [FieldError("<nil>", "FieldValueInvalid", f'Invalid value: "": {message}')]
    step = schema.get("multipleOf")
    if step and value % step:
        found.append(wrong(at, value, f"{at} in body should be a multiple of {step}"))
    most, least = schema.get("maximum"), schema.get("minimum")
    if most is not None:
        if schema.get("exclusiveMaximum"):
            found += [] if value < most else [wrong(at, value, f"{at} in body should be less than {most}")]
        elif value > most:
            found.append(wrong(at, value, f"{at} in body should be less than or equal to {most}"))
    if least is not None:
        if schema.get("exclusiveMinimum"):
            found += [] if value > least else [wrong(at, value, f"{at} in body should be greater than {least}")]
        elif value < least:
            found.append(wrong(at, value, f"{at} in body should be greater than or equal to {least}"))
    return found


def _check_junctors(value: Any, schema: JsonObject, at: str) -> list[FieldError]:
    found: list[FieldError] = []
    if alternatives := schema.get("anyOf"):
        problems = [check(value, option, at) for option in alternatives]
        if all(problems):
            found += [_nowhere(f'"{at}" must validate at least one schema (anyOf)'), *problems[0]]
    if alternatives := schema.get("oneOf"):
        problems = [check(value, option, at) for option in alternatives]
        valid = sum(1 for problem in problems if not problem)
        if valid == 0:
            found += [_nowhere(f'"{at}" must validate one and only one schema (oneOf). Found none valid'), *problems[0]]
        elif valid > 1:
            message = f'"{at}" must validate one and only one schema (oneOf). Found {valid} valid alternatives'
            found.append(_nowhere(message))
    if alternatives := schema.get("allOf"):
        problems = [check(value, option, at) for option in alternatives]
        found += [error for problem in problems for error in problem]
        if all(problems):
            found.append(_nowhere(f'"{at}" must validate all the schemas (allOf). None validated'))
    if (refused := schema.get("not")) and not check(value, refused, at):
        found.append(_nowhere(f'"{at}" must not validate the schema (not)'))
    return found


def _nowhere(message: str) -> FieldError:
    return FieldError("<nil>", "FieldValueInvalid", f'Invalid value: "": {message}')


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name
