"""From structs to structural schemas."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest

from ullage.kube.client.resource import JsonObject
from ullage.kube.crds.catalog import FILES
from ullage.kube.crds.definition import CrdDefinition
from ullage.kube.crds.marks import (
    BYTES,
    REQUIRED,
    SET,
    ValidationRule,
    at_least,
    at_most_items,
    between,
    length,
    map_by,
    one_of,
)
from ullage.kube.crds.schema import object_schema
from ullage.kube.objects import KubeStruct


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


class Part(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A part."""

    name: str
    size: int = 3
    """How large,
    in metres."""


class Thing(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A thing."""

    count: Annotated[int, at_least(1)] = 1
    most: Annotated[int | None, between(0, 5)] = None
    ratio: float = 0.0
    on: bool = False
    colour: Annotated[str, one_of(Colour)] = Colour.RED.value
    code: Annotated[str, length(1, 5), REQUIRED] = ""
    memory: Annotated[int | str, BYTES] = 0
    tags: Annotated[tuple[str, ...], SET, at_most_items(2)] = ()
    steps: tuple[Annotated[int, at_least(0)], ...] = ()
    parts: Annotated[tuple[Part, ...], map_by("name")] = ()
    labels: dict[str, str] = {}  # noqa: RUF012 - msgspec gives each struct its own
    part: Part | None = None
    long_name: str = msgspec.field(default="", name="longName!")


PROPERTIES = object_schema(Thing, {})["properties"]


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        pytest.param("count", {"type": "integer", "minimum": 1, "default": 1}, id="limits-and-default"),
        pytest.param("most", {"type": "integer", "minimum": 0, "maximum": 5}, id="none-is-left-out"),
        pytest.param("ratio", {"type": "number"}, id="a-default-of-nothing-is-no-default"),
        pytest.param("on", {"type": "boolean"}, id="flag"),
        pytest.param("colour", {"type": "string", "enum": ["Red", "Blue"], "default": "Red"}, id="closed-list"),
        pytest.param("code", {"type": "string", "minLength": 1, "maxLength": 5}, id="length"),
        pytest.param("labels", {"type": "object", "additionalProperties": {"type": "string"}}, id="map"),
        pytest.param(
            "tags",
            {"type": "array", "items": {"type": "string"}, "maxItems": 2, "x-kubernetes-list-type": "set"},
            id="list-that-is-a-set",
        ),
        pytest.param(
            "steps",
            {"type": "array", "items": {"type": "integer", "minimum": 0}, "x-kubernetes-list-type": "atomic"},
            id="a-list-is-atomic-unless-said-otherwise",
        ),
        pytest.param("longName!", {"type": "string"}, id="name-on-the-wire"),
    ],
)
def test_field(name: str, schema: JsonObject) -> None:
    assert PROPERTIES[name] == schema


def test_text_or_number_has_no_type_of_its_own() -> None:
    assert "type" not in PROPERTIES["memory"]
    assert PROPERTIES["memory"]["x-kubernetes-int-or-string"] is True


def test_an_object_in_a_list_is_spelled_out() -> None:
    assert PROPERTIES["parts"] == {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "description": "A part.",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "size": {"type": "integer", "default": 3, "description": "How large, in metres."},
            },
        },
    }


def test_an_optional_object_gets_no_default() -> None:
    assert "default" not in PROPERTIES["part"]


def test_an_object_with_defaults_inside_is_filled_in_whole() -> None:
    class Whole(KubeStruct, frozen=True, gc=False, kw_only=True):
        thing: Thing = msgspec.field(default_factory=Thing)

    assert object_schema(Whole, {})["properties"]["thing"]["default"] == {"count": 1, "colour": "Red"}


def test_required_by_mark_or_for_want_of_a_default() -> None:
    assert object_schema(Thing, {})["required"] == ["code"]
    assert object_schema(Part, {})["required"] == ["name"]


def test_rules_follow_their_struct_wherever_it_occurs() -> None:
    rule = ValidationRule(cel="self.size > 0", message="too small", field=".size")
    schema = object_schema(Thing, {Part: (rule,)})["properties"]
    law = {"rule": "self.size > 0", "message": "too small", "reason": "FieldValueInvalid", "fieldPath": ".size"}
    assert schema["part"]["x-kubernetes-validations"] == [law]
    assert schema["parts"]["items"]["x-kubernetes-validations"] == [law]


class Either(KubeStruct, frozen=True, gc=False, kw_only=True):
    value: bool | int = 0


class Anything(KubeStruct, frozen=True, gc=False, kw_only=True):
    value: Any = None


@pytest.mark.parametrize("kind", [Either, Anything])
def test_what_has_no_structural_schema_is_refused(kind: type[msgspec.Struct]) -> None:
    with pytest.raises(TypeError, match="no structural schema"):
        object_schema(kind, {})


def nodes_of(schema: JsonObject, path: str = "") -> Iterator[tuple[str, JsonObject]]:
    """Every schema inside a schema, with the path of its field."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes_of(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes_of(schema[key], f"{path}[]")


ALL = pytest.mark.parametrize("definition", FILES.values(), ids=list(FILES))


def schema_of(definition: CrdDefinition) -> JsonObject:
    (version,) = definition.written()["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    assert isinstance(schema, dict)
    return schema


@ALL
def test_our_schemas_are_structural(definition: CrdDefinition) -> None:
    for path, schema in nodes_of(schema_of(definition)):
        assert not schema.keys() & {"$ref", "anyOf", "allOf", "oneOf", "not", "nullable"}, path
        assert ("type" in schema) != schema.get("x-kubernetes-int-or-string", False), path
        assert ("x-kubernetes-list-type" in schema) == (schema.get("type") == "array"), path
        assert not ({"properties", "additionalProperties"} <= schema.keys()), path


@ALL
def test_our_columns_show_fields_that_exist(definition: CrdDefinition) -> None:
    known = {path for path, _ in nodes_of(schema_of(definition))} | {".metadata.creationTimestamp"}
    (version,) = definition.written()["spec"]["versions"]
    shown = [one["jsonPath"] for one in version["additionalPrinterColumns"]]
    chosen = [one["jsonPath"] for one in version.get("selectableFields", ())]
    assert {re.sub(r"\[[^]]*\]", "[]", path) for path in (*shown, *chosen)} <= known
