"""Check that a schema is structural: typed everywhere, so that objects can be pruned, defaulted and merged by it."""

import re
from typing import Any

from ullage.sim.apiserver.request.field_errors import FieldError, required, unsupported, wrong
from ullage.sim.apiserver.storage.json_bytes import JsonObject

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_NUMBERS = (
    "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
    "multipleOf",
)  # fmt: skip


def check_schema(schema: Any, at: str, *, root: bool = False, role: str = "") -> list[FieldError]:
    """Errors of a schema and of the schemas in it. `role` is the part it has in its parent."""
    if not isinstance(schema, dict):
        return [wrong(at, schema, "must be an object")]
    found = _check_type(schema, at, root=root, role=role) + _check_parts(schema, at)
    if found:
        return found
    for name, member in (schema.get("properties") or {}).items():
        found += check_schema(member, f"{at}.properties[{name}]", role="specified object fields")
    if "items" in schema:
        found += check_schema(schema["items"], f"{at}.items", role="specified array items")
    others = schema.get("additionalProperties")
    if others is not None and not isinstance(others, bool):
        found += check_schema(others, f"{at}.additionalProperties", role="specified object fields")
    return found


def _check_type(schema: JsonObject, at: str, *, root: bool, role: str) -> list[FieldError]:
    kind = schema.get("type")
    if root and kind != "object":
        return [wrong(f"{at}.type", kind or "", "must be object at the root")]
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if kind is None and not free:
        return [required(f"{at}.type", f"must not be empty for {role}")]
    if kind is not None and kind not in _TYPES:
        return [unsupported(f"{at}.type", kind, _TYPES)]
    return []


def _check_parts(schema: JsonObject, at: str) -> list[FieldError]:
    """The members whose own types everything else relies on."""
    found = [
        wrong(f"{at}.{name}", schema[name], "must be a number")
        for name in _NUMBERS
        if name in schema and (isinstance(schema[name], bool) or not isinstance(schema[name], int | float))
    ]
    if not isinstance(schema.get("properties") or {}, dict):
        found.append(wrong(f"{at}.properties", schema["properties"], "must be an object"))
    lists = ("required", "enum", "x-kubernetes-list-map-keys")
    unlisted = [name for name in lists if not isinstance(schema.get(name) or [], list)]
    found += [wrong(f"{at}.{name}", schema[name], "must be a list") for name in unlisted]
    for name in ("anyOf", "oneOf", "allOf"):
        options = schema.get(name) or []
        if not isinstance(options, list) or not all(isinstance(option, dict) for option in options):
            found.append(wrong(f"{at}.{name}", options, "must be a list of schemas"))
    if not isinstance(schema.get("not") or {}, dict):
        found.append(wrong(f"{at}.not", schema["not"], "must be a schema"))
    return found + _check_pattern(schema, at)


def _check_pattern(schema: JsonObject, at: str) -> list[FieldError]:
    pattern = schema.get("pattern", "")
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        return [wrong(f"{at}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")]
    return []
