"""Strategic merge patches: like merge patches, but lists whose items have a key are merged item by item.

Which lists those are is known from the kind's merge schema. Directives: `$patch` (replace, delete), `$retainKeys`,
`$deleteFromPrimitiveList/...`, `$setElementOrder/...`.
"""

from collections.abc import Sequence
from typing import Any

from ullage.sim.apiserver.merge.json_patches import PatchFailed
from ullage.sim.apiserver.merge.merge_schema import ATOMIC_UNKNOWN, MergeSchema

_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_merge(document: Any, patch: Any, schema: MergeSchema) -> Any:
    """The document may be changed and reused. Raises PatchFailed where patch and document do not fit."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return _plain(patch)
    if patch.get("$patch") == "delete":
        return {}
    result = document if isinstance(document, dict) else {}
    if isinstance(kept := patch.get("$retainKeys"), list):
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            _delete_from(result, key.removeprefix(_DELETE_FROM), value)
        elif key.startswith((_ORDER, "$")):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            order = patch.get(_ORDER + key)
            result[key] = _merge_member(result.get(key), value, schema.member(key), order)
    return result


def _merge_member(present: Any, value: Any, schema: MergeSchema, order: Any) -> Any:
    if isinstance(value, dict):
        return strategic_merge(present, value, schema)
    if not isinstance(value, list):
        return value
    if not schema.patch_merges:
        return value
    if not schema.patch_key:
        have = present if isinstance(present, list) else []
        return _ordered([*have, *(item for item in value if item not in have)], order or value, have)
    return _merge_items(present if isinstance(present, list) else [], value, schema, order)


def _merge_items(present: list[Any], items: list[Any], schema: MergeSchema, order: Any) -> list[Any]:
    key = schema.patch_key
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in items):
        return [_plain(item) for item in items if not (isinstance(item, dict) and "$patch" in item)]
    result = list(present)
    for item in items:
        if not isinstance(item, dict) or key not in item:
            raise PatchFailed(f"map: {item} does not contain declared merge key: {key}")
        places = [index for index, old in enumerate(result) if isinstance(old, dict) and old.get(key) == item[key]]
        if item.get("$patch") == "delete":
            result = [old for index, old in enumerate(result) if index not in places]
        elif places:
            result[places[0]] = strategic_merge(result[places[0]], item, schema.rest or ATOMIC_UNKNOWN)
        else:
            result.append(strategic_merge({}, item, schema.rest or ATOMIC_UNKNOWN))
    return _ordered(result, order or items, present, key)


def _ordered(merged: list[Any], wanted: Sequence[Any], before: Sequence[Any], key: str = "") -> list[Any]:
    """Order of the merged list: items the patch names in its order, the rest where they were relative to those."""

    def name(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    order, places = [name(item) for item in wanted], [name(item) for item in before]
    named = sorted((item for item in merged if name(item) in order), key=lambda item: order.index(name(item)))
    others = [item for item in merged if name(item) not in order]
    result: list[Any] = []
    while named and others:
        first = name(named[0])
        later = first in places and places.index(first) > places.index(name(others[0]))
        result.append(others.pop(0) if later else named.pop(0))
    return [*result, *named, *others]


def _delete_from(result: dict[str, Any], name: str, values: Any) -> None:
    if isinstance(result.get(name), list) and isinstance(values, list):
        result[name] = [item for item in result[name] if item not in values]


def _plain(value: Any) -> Any:
    """Without directives."""
    return {key: item for key, item in value.items() if not key.startswith("$")} if isinstance(value, dict) else value
