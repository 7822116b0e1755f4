"""Pruning and defaulting of custom objects before validation: unknown fields go, defaults come."""

from typing import Any

from ullage.sim.apiserver.storage.json_bytes import JsonObject, copied

_WITH_PARTS = (dict, list)
_ALWAYS = ("apiVersion", "kind", "metadata")


def prune(value: Any, schema: JsonObject, *, root: bool = False) -> None:
    """Remove, in place, fields the schema does not have."""
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for item in value:
                prune(item, items)
        return
    if not isinstance(value, dict):
        return
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name in list(value):
        if (root or schema.get("x-kubernetes-embedded-resource")) and name in _ALWAYS:
            continue
        if name in properties:
            prune(value[name], properties[name])
        elif isinstance(others, dict):
            prune(value[name], others)
        elif not others and not schema.get("x-kubernetes-preserve-unknown-fields"):
            del value[name]


def unknown_fields(value: Any, schema: JsonObject, at: str = "", *, root: bool = False) -> list[str]:
    """Paths of fields that `prune` would remove."""
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return []
        return [path for index, item in enumerate(value) for path in unknown_fields(item, items, f"{at}[{index}]")]
    if not isinstance(value, dict):
        return []
    found: list[str] = []
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name in sorted(value):
        path = f"{at}.{name}" if at else name
        if (root or schema.get("x-kubernetes-embedded-resource")) and name in _ALWAYS:
            continue
        if name in properties:
            found += unknown_fields(value[name], properties[name], path)
        elif isinstance(others, dict):
            found += unknown_fields(value[name], others, path)
        elif not others and not schema.get("x-kubernetes-preserve-unknown-fields"):
            found.append(path)
    return found


def fill_defaults(value: Any, schema: JsonObject) -> None:
    """Fill in defaults in place. A null that the schema does not allow counts as left out."""
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for item in value:
                fill_defaults(item, items)
        return
    if not isinstance(value, dict):
        return
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, member in properties.items():
        if name in value or "default" in member:
            _fill_member(value, name, member)
    if isinstance(others, dict):
        for name in value:
            if name not in properties:
                fill_defaults(value[name], others)


def _fill_member(value: JsonObject, name: str, schema: JsonObject) -> None:
    if name in value and value[name] is None and not schema.get("nullable"):
        del value[name]
    if name not in value and "default" in schema:
        value[name] = copied({"default": schema["default"]})["default"]
    if name in value and isinstance(value[name], _WITH_PARTS):
        fill_defaults(value[name], schema)
