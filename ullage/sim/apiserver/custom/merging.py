"""Merge schema of a custom kind for server-side apply, read from its structural schema."""

from ullage.sim.apiserver.merge.merge_schema import ATOMIC, ATOMIC_UNKNOWN, MergeKind, MergeSchema
from ullage.sim.apiserver.merge.type_merging import merge_schema_of
from ullage.sim.apiserver.storage.json_bytes import JsonObject


def merge_schema(schema: JsonObject, *, root: bool = False) -> MergeSchema:
    if schema.get("type") == "array":
        return _list_schema(schema)
    if schema.get("type") != "object" and not schema.get("properties"):
        unknown = schema.get("x-kubernetes-preserve-unknown-fields") and "type" not in schema
        return ATOMIC_UNKNOWN if unknown else ATOMIC
    if schema.get("x-kubernetes-map-type") == "atomic":
        return ATOMIC
    members = {name: merge_schema(member) for name, member in (schema.get("properties") or {}).items()}
    others = schema.get("additionalProperties")
    rest = merge_schema(others) if isinstance(others, dict) else None
    if root:
        members |= {"metadata": merge_schema_of("meta.v1.ObjectMeta"), "apiVersion": ATOMIC, "kind": ATOMIC}
    return MergeSchema(MergeKind.MEMBERS, members=members, rest=rest)


def _list_schema(schema: JsonObject) -> MergeSchema:
    items = schema.get("items") or {}
    match schema.get("x-kubernetes-list-type"):
        case "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
            properties = items.get("properties") or {}
            defaults = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
            return MergeSchema(MergeKind.KEYED, rest=merge_schema(items), keys=keys, key_defaults=defaults)
        case "set":
            return MergeSchema(MergeKind.SET)
        case _:
            return ATOMIC
