"""Object schemas of the built-in kinds, derived from the catalog of types.

Fields are written in the order of their declaration in Go, as the server does.
"""

from functools import cache
from typing import Any

import msgspec

from ullage.sim.apiserver.types.catalog import TypeField, catalog
from ullage.sim.apiserver.types.shapes import Base64Text, Compiled, MicroTime, ObjectSchema, QuantityText

_ITEMS: dict[str, Any] = {
    "string": str,
    "time": str,
    "bool": bool,
    "int32": int,
    "int64": int,
    "double": float,
    "quantity": QuantityText,
    "microtime": MicroTime,
    "bytes": Base64Text,
    "intOrString": int | str,
}
_ZEROES: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0}
"""Left out by Go's encoder, unless the field is kept or a pointer."""
_WHOLE: dict[str, Any] = {"apiextensions.v1.JSONSchemaProps": dict}
"""Types that contain themselves, and are read as they come."""


@cache
def object_schema(name: str) -> ObjectSchema:
    """Schema of a kind by the name of its type, such as core.v1.Pod."""
    return ObjectSchema(lambda: {one.name: _compiled(one) for one in catalog()[name].fields.values()})


OPEN = ObjectSchema(lambda: {"metadata": _value("meta.v1.ObjectMeta")}, closed=False)
"""Kinds that are kept as they come."""


def _compiled(field: TypeField) -> Compiled:
    """Type of a field for msgspec, and the value that is left out."""
    if field.type in _ZEROES and not field.kept and not field.pointer:
        return _ITEMS[field.type], _ZEROES[field.type]
    return _value(field.type)


def _value(name: str) -> Compiled:
    if name.startswith("[]"):
        return list[_item(name.removeprefix("[]"))], []  # type: ignore[misc]  # built at run time
    if name.startswith("map:"):
        return dict[str, _item(name.removeprefix("map:"))], {}  # type: ignore[misc]  # built at run time
    item = _item(name)
    return (Any, None) if item is Any else (item | None, None)


def _item(name: str) -> Any:
    if name.startswith(("[]", "map:")):
        return _value(name)[0]
    if name in _ITEMS:
        return _ITEMS[name]
    return _struct(name) if name in catalog() else Any


@cache
def _struct(name: str) -> Any:
    if name in _WHOLE:
        return _WHOLE[name]
    fields = list(catalog()[name].fields.values())
    names = {f"f{place}": one.name for place, one in enumerate(fields)}
    members = [(f"f{place}", *_compiled(one)) for place, one in enumerate(fields)]
    return msgspec.defstruct("Members", members, omit_defaults=True, rename=names)
