"""Structural schemas: what is refused and how it is said, what is dropped, what is filled in."""

from typing import Any

import pytest

from tests.sim.apiserver.asking import DEFINITIONS, WIDGETS, Client, a_definition, a_widget
from ullage.sim.apiserver.custom.formats import fits_format
from ullage.sim.apiserver.custom.pruning import fill_defaults, prune
from ullage.sim.apiserver.custom.validate import check

STRING: dict[str, Any] = {"type": "string"}
LIST: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize(
    ("schema", "value", "complaints"),
    [
        ({"type": "integer"}, "x", ['Invalid value: "string": spec in body must be of type integer: "string"']),
        ({"type": "integer"}, 1.5, ['Invalid value: "number": spec in body must be of type integer: "number"']),
        ({"type": "integer"}, True, ['Invalid value: "boolean": spec in body must be of type integer: "boolean"']),
        ({"type": "integer", "minimum": 1}, 0, ["Invalid value: 0: spec in body should be greater than or equal to 1"]),
        ({"type": "integer", "maximum": 8}, 9, ["Invalid value: 9: spec in body should be less than or equal to 8"]),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, 0,
         ["Invalid value: 0: spec in body should be greater than 0"]),
        ({"type": "number", "maximum": 5, "exclusiveMaximum": True}, 5,
         ["Invalid value: 5: spec in body should be less than 5"]),
        ({"type": "integer", "multipleOf": 2}, 3, ["Invalid value: 3: spec in body should be a multiple of 2"]),
        ({**STRING, "enum": ["A", "B"]}, "C", ['Unsupported value: "C": supported values: "A", "B"']),
        ({"type": "integer", "enum": [1, 2]}, 3, ['Unsupported value: 3: supported values: "1", "2"']),
        ({**STRING, "minLength": 2, "pattern": "^[a-z]+$"}, "A",
         ['Invalid value: "A": spec in body should be at least 2 chars long']),
        ({**STRING, "pattern": "^[a-z]+$"}, "A", ['Invalid value: "A": spec in body should match \'^[a-z]+$\'']),
        ({**STRING, "maxLength": 2}, "abc", ["Too long: may not be more than 2 bytes"]),
        ({**STRING, "format": "date-time"}, "x", ['Invalid value: "x": spec in body must be of type date-time: "x"']),
        ({**LIST, "maxItems": 1}, [1, 2], ["Too many: 2: must have at most 1 item"]),
        ({**LIST, "minItems": 2}, [1], ["Invalid value: 1: spec in body should have at least 2 items"]),
        ({**LIST, "x-kubernetes-list-type": "set"}, [1, 1], ["Duplicate value: 1"]),
        (LIST, ["x"], ['Invalid value: "string": spec[0] in body must be of type integer: "string"']),
        ({"type": "object", "required": ["a"]}, {}, ["Required value"]),
        ({"type": "object", "additionalProperties": STRING}, {"k": 1},
         ['Invalid value: "integer": spec.k in body must be of type string: "integer"']),
        ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, ["Too many: 2: must have at most 1 item"]),
        ({"x-kubernetes-int-or-string": True}, True,
         ['Invalid value: "boolean": spec in body must be of type integer,string: "boolean"']),
        ({"type": "integer", "format": "int32"}, 2**40,
         ['Invalid value: "": Checked value must be of type integer with format int32 in spec']),
        ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {},
         ['Invalid value: "": "spec" must validate at least one schema (anyOf)', "Required value"]),
        ({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1, "b": 1},
         ['Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives']),
        ({"type": "object", "not": {"required": ["a"]}}, {"a": 1},
         ['Invalid value: "": "spec" must not validate the schema (not)']),
        ({"x-kubernetes-int-or-string": True}, "5%", []),
        ({"x-kubernetes-int-or-string": True}, 5, []),
        ({**STRING, "nullable": True}, None, []),
        ({"type": "integer"}, 2.0, []),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"a": {"b": 1}}, []),
    ],
)  # fmt: skip
def test_complaints(schema: dict[str, Any], value: Any, complaints: list[str]) -> None:
    assert [error.message for error in check(value, schema, "spec")] == complaints


def test_complaints_name_the_path() -> None:
    item = {"type": "object", "required": ["k"], "properties": {"k": STRING, "n": {"type": "integer"}}}
    lists = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    schema = {"type": "object", "properties": {"list": lists}}
    value = {"list": [{"k": "a"}, {"n": "x"}, {"k": "a"}]}
    fields = [error.field for error in check(value, schema, "spec")]
    assert fields == ["spec.list[1].k", "spec.list[1].n", "spec.list[2]"]


@pytest.mark.parametrize(
    ("schema", "value", "left"),
    [
        pytest.param({"properties": {"a": STRING}}, {"a": "1", "b": 2}, {"a": "1"}, id="unknown-member"),
        pytest.param(
            {"properties": {"a": {"type": "array", "items": {"properties": {"x": STRING}}}}},
            {"a": [{"x": "1", "y": 2}]},
            {"a": [{"x": "1"}]},
            id="in-a-list",
        ),
        pytest.param({"additionalProperties": {"properties": {}}}, {"k": {"x": 1}}, {"k": {}}, id="in-a-map"),
        pytest.param({"x-kubernetes-preserve-unknown-fields": True}, {"k": {"x": 1}}, {"k": {"x": 1}}, id="preserved"),
        pytest.param(
            {"x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "object"}}},
            {"a": {"x": 1}, "b": 1},
            {"a": {}, "b": 1},
            id="preserved-but-known-parts-are-not",
        ),
    ],
)
def test_unknown_fields_go(schema: dict[str, Any], value: Any, left: Any) -> None:
    prune(value, schema)
    assert value == left


@pytest.mark.parametrize(
    ("schema", "value", "filled"),
    [
        pytest.param({"properties": {"a": {"default": 1}}}, {}, {"a": 1}, id="missing"),
        pytest.param({"properties": {"a": {"default": 1}}}, {"a": 2}, {"a": 2}, id="given"),
        pytest.param({"properties": {"a": {"default": 1}}}, {"a": None}, {"a": 1}, id="null-counts-as-missing"),
        pytest.param({"properties": {"a": STRING}}, {"a": None}, {}, id="null-without-a-default-goes"),
        pytest.param(
            {"properties": {"a": {"nullable": True, "default": 1}}}, {"a": None}, {"a": None}, id="null-that-may-be"
        ),
        pytest.param(
            {"properties": {"o": {"default": {}, "properties": {"n": {"default": 3}}}}}, {}, {"o": {"n": 3}}, id="deep"
        ),
        pytest.param({"properties": {"o": {"properties": {"n": {"default": 3}}}}}, {}, {}, id="not-into-nothing"),
        pytest.param(
            {"properties": {"l": {"items": {"properties": {"n": {"default": 3}}}}}}, {"l": [{}]}, {"l": [{"n": 3}]},
            id="items",
        ),
    ],
)  # fmt: skip
def test_defaults_come(schema: dict[str, Any], value: Any, filled: Any) -> None:
    fill_defaults(value, schema)
    assert value == filled


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2026-01-01T00:00:00Z", "2026-01-01"),
        ("date", "2026-01-01", "01.01.2026"),
        ("duration", "1h30m", "5x"),
        ("ipv4", "10.0.0.1", "10.0.0"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/99"),
        ("uuid", "b2221a58-008a-45a6-8464-7159c324c985", "z"),
        ("uri", "https://example.dev/x", "::"),
        ("byte", "aGk=", "***"),
        ("email", "a@b", "a"),
        ("hostname", "a.b", "-"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    assert fits_format(name, good)
    assert not fits_format(name, bad)
    assert fits_format("format-nobody-knows", bad)


def test_a_default_is_not_shared_between_objects(client: Client) -> None:
    client.post(DEFINITIONS, a_definition({"type": "object", "properties": {"l": {**LIST, "default": []}}}))
    client.post(WIDGETS, a_widget("a"))
    client.ask("PATCH", f"{WIDGETS}/a", [{"op": "add", "path": "/spec/l/-", "value": 1}], "application/json-patch+json")
    assert client.post(WIDGETS, a_widget("b")).body["spec"] == {"l": []}
