"""Labels, selectors and pod templates in a cell."""

from typing import Any

from ullage.sim.apiserver.printing.column import NONE, part
from ullage.sim.apiserver.storage.json_bytes import JsonObject


def labels_text(labels: dict[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Any) -> str:
    if not isinstance(selector, dict):
        return NONE
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    parts += [(item.get("key", ""), _expression(item)) for item in selector.get("matchExpressions") or []]
    return ",".join(text for _, text in sorted(parts)) or NONE


def _expression(item: JsonObject) -> str:
    key, values = item.get("key", ""), ",".join(sorted(item.get("values") or []))
    match item.get("operator"):
        case "Exists":
            return str(key)
        case "DoesNotExist":
            return f"!{key}"
        case "NotIn":
            return f"{key} notin ({values})"
        case _:
            return f"{key} in ({values})"


def containers_of(obj: JsonObject, *path: str) -> tuple[str, str]:
    """Names and images of a template's containers."""
    found = part(obj, *path).get("containers") or []
    return ",".join(c.get("name", "") for c in found), ",".join(c.get("image", "") for c in found)
