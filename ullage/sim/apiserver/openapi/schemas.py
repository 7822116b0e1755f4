"""Types as OpenAPI schemas: the built-in ones from the catalog, custom ones from their definitions."""

from collections.abc import Iterator
from typing import Any

from ullage.sim.apiserver.custom.kinds import CustomRules
from ullage.sim.apiserver.kinds.kind import ServedKind
from ullage.sim.apiserver.openapi.descriptions import EVERYWHERE, FIELDS, TYPES
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.types.catalog import ObjectType, TypeField, base_type, catalog, find_type

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SCHEMAS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_ANYTHING: JsonObject = {"description": "Any JSON value."}
_NAMED: dict[str, tuple[str, JsonObject]] = {
    "quantity": ("io.k8s.apimachinery.pkg.api.resource.Quantity", {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "intOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "time": (_META + "Time", {"type": "string", "format": "date-time"}),
    "microtime": (_META + "MicroTime", {"type": "string", "format": "date-time"}),
    "object": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
    "fields": (_META + "FieldsV1", {"type": "object"}),
    "json": (_SCHEMAS + "JSON", _ANYTHING),
    "schemaOrBool": (_SCHEMAS + "JSONSchemaPropsOrBool", _ANYTHING),
    "schemaOrArray": (_SCHEMAS + "JSONSchemaPropsOrArray", _ANYTHING),
    "schemaOrStrings": (_SCHEMAS + "JSONSchemaPropsOrStringArray", _ANYTHING),
}
"""Scalars that are published under a name."""
_PLAIN: dict[str, JsonObject] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
}
OBJECT_META = "meta.v1.ObjectMeta"
LIST_META = "meta.v1.ListMeta"


def published_name(name: str) -> str:
    """As Kubernetes calls a type in its documents."""
    if name in _NAMED:
        return _NAMED[name][0]
    if name.startswith("meta."):
        return _META + name.removeprefix("meta.v1.")
    if name.startswith("apiextensions."):
        return f"io.k8s.apiextensions-apiserver.pkg.apis.{name}"
    return f"io.k8s.api.{name}"


def schema_name(kind: ServedKind) -> str:
    """The name a kind's schema has in documents."""
    found = None if kind.custom else find_type(kind.group, kind.version, kind.kind)
    if found is not None:
        return published_name(found.name)
    reversed_group = ".".join(reversed(kind.group.split("."))) or "core"
    return f"{reversed_group}.{kind.version}.{kind.kind}"


def reference(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{published_name(name)}"}


def schemas_of(kind: ServedKind) -> Iterator[tuple[str, JsonObject]]:
    """The schema of a kind, of lists of it, and of every type they are made of."""
    own = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    found = None if kind.custom else find_type(kind.group, kind.version, kind.kind)
    schema = _custom_schema(kind) if found is None else _object_schema(found)
    yield schema_name(kind), {**schema, "x-kubernetes-group-version-kind": [own]}
    yield schema_name(kind) + "List", _list_schema(kind)
    for name in _reachable([found.name] if found else [], OBJECT_META, LIST_META, "meta.v1.DeleteOptions"):
        if found is None or name != found.name:
            yield published_name(name), _type_schema(name)


def _reachable(*starts: Any) -> list[str]:
    waiting = [name for start in starts for name in (start if isinstance(start, list) else [start])]
    seen: dict[str, None] = {}
    while waiting:
        name = waiting.pop()
        if name in seen or name in _PLAIN:
            continue
        seen[name] = None
        if name not in _NAMED:
            waiting += [base_type(field.type) for field in catalog()[name].fields.values()]
    return list(seen)


def _type_schema(name: str) -> JsonObject:
    return _NAMED[name][1] if name in _NAMED else _object_schema(catalog()[name])


def _object_schema(kind: ObjectType) -> JsonObject:
    words = {**(EVERYWHERE if kind.typed else {}), **FIELDS.get(kind.name, {})}
    properties: JsonObject = {name: {"type": "string"} for name in ("apiVersion", "kind") if kind.typed}
    properties |= {field.name: _field_schema(field) for field in kind.fields.values()}
    for name in properties:
        if name in words:
            properties[name]["description"] = words[name]
    schema: JsonObject = {"type": "object", "properties": properties}
    if kind.name in TYPES:
        schema["description"] = TYPES[kind.name]
    needed = [field.name for field in kind.fields.values() if field.required]
    if needed:
        schema["required"] = needed
    if kind.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _field_schema(field: TypeField) -> JsonObject:
    schema = _value_schema(field.type)
    if field.enum:
        schema["enum"] = list(field.enum)
    if field.default:
        schema["default"] = field.default
    is_list = field.type.startswith("[]")
    if field.merge == "keys":
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(field.keys)}
    elif field.merge:
        schema["x-kubernetes-list-type" if is_list else "x-kubernetes-map-type"] = field.merge
    if field.patch:
        schema["x-kubernetes-patch-strategy"] = field.patch
    if field.patch_key:
        schema["x-kubernetes-patch-merge-key"] = field.patch_key
    return schema


def _value_schema(name: str) -> JsonObject:
    if name.startswith("[]"):
        return {"type": "array", "items": _value_schema(name.removeprefix("[]"))}
    if name.startswith("map:"):
        return {"type": "object", "additionalProperties": _value_schema(name.removeprefix("map:"))}
    return dict(_PLAIN[name]) if name in _PLAIN else {"allOf": [reference(name)]}


def _custom_schema(kind: ServedKind) -> JsonObject:
    """As it was defined, with what every object has."""
    defined: JsonObject = kind.rules.published if isinstance(kind.rules, CustomRules) else {"type": "object"}
    common: JsonObject = {name: {"type": "string", "description": EVERYWHERE[name]} for name in ("apiVersion", "kind")}
    common["metadata"] = {"allOf": [reference(OBJECT_META)], "description": EVERYWHERE["metadata"]}
    return {**defined, "properties": {**(defined.get("properties") or {}), **common}}


def _list_schema(kind: ServedKind) -> JsonObject:
    item = {"allOf": [{"$ref": f"#/components/schemas/{schema_name(kind)}"}]}
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            **{name: {"type": "string", "description": EVERYWHERE[name]} for name in ("apiVersion", "kind")},
            "metadata": {"allOf": [reference(LIST_META)]},
            "items": {"type": "array", "items": item},
        },
        "x-kubernetes-group-version-kind": [
            {"group": kind.group, "version": kind.version, "kind": f"{kind.kind}List"},
        ],
    }
