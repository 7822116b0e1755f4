"""Merge schemas of the built-in types, derived from the catalog: for server-side apply and strategic merge patches."""

from functools import cache

from ullage.sim.apiserver.merge.merge_schema import ATOMIC, ATOMIC_UNKNOWN, SET, MergeKind, MergeSchema
from ullage.sim.apiserver.types.catalog import TypeField, catalog

_OPAQUE = ("object", "json", "fields")


@cache
def merge_schema_of(name: str) -> MergeSchema:
    """Merge schema of a type by its name, such as core.v1.Pod."""
    found = catalog()[name]
    members = {one.name: _field(one) for one in found.fields.values()}
    if found.typed:
        members |= {"apiVersion": ATOMIC, "kind": ATOMIC}
    shape = MergeKind.ATOMIC if found.atomic else MergeKind.MEMBERS
    return MergeSchema(shape, members=members, rest=ATOMIC_UNKNOWN)


def _field(field: TypeField) -> MergeSchema:
    kind = field.type
    if kind.startswith("[]"):
        return _list(field, kind.removeprefix("[]"))
    if field.merge == "atomic":
        return _atomic(kind)
    if kind.startswith("map:"):
        return MergeSchema(MergeKind.MEMBERS, rest=_type(kind.removeprefix("map:")))
    return _type(kind)


def _list(field: TypeField, item: str) -> MergeSchema:
    merges = "merge" in field.patch.split(",")
    inner = _type(item)
    if field.merge == "keys":
        declared = catalog()[item].fields
        defaults = {key: declared[key].default for key in field.keys if declared[key].default}
        shape, keys = MergeKind.KEYED, field.keys
    else:
        shape, keys, defaults = SET.shape if field.merge == "set" else MergeKind.ATOMIC, (), {}
    return MergeSchema(
        shape, rest=inner, keys=keys, key_defaults=defaults, patch_merges=merges, patch_key=field.patch_key
    )


def _atomic(kind: str) -> MergeSchema:
    """An atomic value. A strategic merge patch still merges its members."""
    if kind not in catalog():
        return ATOMIC
    inner = merge_schema_of(kind)
    return MergeSchema(MergeKind.ATOMIC, members=inner.members, rest=inner.rest)


def _type(kind: str) -> MergeSchema:
    if kind in _OPAQUE:
        return ATOMIC_UNKNOWN
    if kind == "apiextensions.v1.JSONSchemaProps" or kind not in catalog():
        return ATOMIC
    return merge_schema_of(kind)


UNTYPED = MergeSchema(
    MergeKind.MEMBERS,
    members={"metadata": merge_schema_of("meta.v1.ObjectMeta"), "apiVersion": ATOMIC, "kind": ATOMIC},
    rest=ATOMIC_UNKNOWN,
)
"""Kinds that are kept as they come."""
