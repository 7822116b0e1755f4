"""From a struct to the structural OpenAPI schema of its objects: no references, no alternatives, every list typed.

Only what API servers accept in a definition is ever written. A type that has no such schema raises TypeError.
"""

from typing import Any

import msgspec
from msgspec import inspect as shapes

from ullage.kube.client.resource import JsonObject
from ullage.kube.crds.docstrings import describe
from ullage.kube.crds.marks import ValidationRule
from ullage.kube.crds.rules import Rules
from ullage.kube.objects.meta import Condition, ObjectMeta

_LIST_TYPE = "x-kubernetes-list-type"

_CONDITION: JsonObject = {
    "type": "object",
    "description": "One aspect of how the object is.",
    "required": ["type", "status", "reason", "lastTransitionTime"],
    "properties": {
        "type": {"type": "string", "minLength": 1, "maxLength": 316, "description": "Which aspect."},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {
            "type": "string",
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            "minLength": 1,
            "maxLength": 1024,
            "description": "Why, in one word, for programs.",
        },
        "message": {"type": "string", "maxLength": 32768, "description": "Why, in words, for people."},
        "lastTransitionTime": {"type": "string", "format": "date-time", "description": "When status last changed."},
        "observedGeneration": {"type": "integer", "minimum": 0, "description": "The spec this is about."},
    },
}
_SHARED: dict[type, JsonObject] = {ObjectMeta: {"type": "object"}, Condition: _CONDITION}
"""Structs that Kubernetes' own kinds use, too: what our kinds allow in them is said here."""


def object_schema(kind: type[msgspec.Struct], rules: Rules) -> JsonObject:
    """The schema of a whole object."""
    schema = _Writer(rules).struct(kind)
    own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    schema["properties"] = own | schema["properties"]
    return schema


class _Writer:
    """Walks the types of a struct. Holds the rules, which belong to structs wherever they occur."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def struct(self, kind: type[msgspec.Struct]) -> JsonObject:
        if kind in _SHARED:
            return dict(_SHARED[kind])
        about, about_fields = describe(kind)
        schema: JsonObject = {"type": "object", "description": about, "properties": {}}
        required: list[str] = []
        for field in msgspec.structs.fields(kind):
            shape = shapes.type_info(field.type)
            name, written = field.encode_name, self.shape(shape)
            if field.name in about_fields:
                written["description"] = about_fields[field.name]
            if field.required or _is_marked_required(shape):
                required.append(name)
            elif (default := _default(field, written)) is not None:
                written["default"] = default
            schema["properties"][name] = written
        if required:
            schema["required"] = required
        if laws := self._rules.get(kind, ()):
            schema["x-kubernetes-validations"] = [_law(rule) for rule in laws]
        return schema

    def shape(self, shape: shapes.Type) -> JsonObject:
        match shape:
            case shapes.Metadata(type=inner, extra_json_schema=extra):
                return self.shape(inner) | (extra or {})
            case shapes.UnionType(types=types):
                return self._union([one for one in types if not isinstance(one, shapes.NoneType)])
            case shapes.StructType(cls=kind):
                return self.struct(kind)
            case shapes.VarTupleType(item_type=item):
                return {"type": "array", "items": self.shape(item), _LIST_TYPE: "atomic"}
            case shapes.DictType(value_type=value):
                return {"type": "object", "additionalProperties": self.shape(value)}
            case _:
                return {"type": _scalar(shape)}

    def _union(self, types: list[shapes.Type]) -> JsonObject:
        if len(types) == 1:
            return self.shape(types[0])
        if {_scalar(one) for one in types} == {"integer", "string"}:
            return {"x-kubernetes-int-or-string": True}
        raise TypeError(f"no structural schema for one of {types}")


def _scalar(shape: shapes.Type) -> str:
    match shape:
        case shapes.BoolType():
            return "boolean"
        case shapes.IntType():
            return "integer"
        case shapes.FloatType():
            return "number"
        case shapes.StrType():
            return "string"
        case _:
            raise TypeError(f"no structural schema for {shape}")


def _is_marked_required(shape: shapes.Type) -> bool:
    return isinstance(shape, shapes.Metadata) and bool((shape.extra or {}).get("required"))


def _default(field: msgspec.structs.FieldInfo, written: JsonObject) -> Any:
    """Default that the API server fills in, unless it is empty; for an object, the defaults of its fields.

    The defaults of its fields are written out because the API server checks the object's rules against its default as
    written.
    """
    if field.default is not msgspec.NODEFAULT:
        return field.default or None
    inside = written.get("properties", {}).items()
    return {name: inner["default"] for name, inner in inside if "default" in inner} or None


def _law(rule: ValidationRule) -> JsonObject:
    law = {"rule": rule.cel, "message": rule.message, "reason": rule.reason}
    return law | ({"fieldPath": rule.field} if rule.field else {})
