"""Fields a kind does not have, and fields said twice: refused, warned of, or dropped, as the writer wants it."""

from typing import Any

import pytest

from tests.contract.wire.asking import APPLY, JSON_PATCH, MERGE, STRATEGIC, Wire

MAPS = "/api/v1/namespaces/{ns}/configmaps"
PODS = "/api/v1/namespaces/{ns}/pods"
ODD_MAP = b'{"metadata":{"name":"m","colour":"x"},"data":{"a":"1","a":"2"},"color":"red","data2":{}}'
COMPLAINTS = [
    'unknown field "metadata.colour"',
    'duplicate field "data.a"',
    'unknown field "color"',
    'unknown field "data2"',
]


async def test_strict_writers_are_refused(wire: Wire) -> None:
    told = await wire.post(MAPS + "?fieldValidation=Strict", ODD_MAP)
    assert (told.status, told.body["reason"]) == (400, "BadRequest")
    handled = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
    assert told.message == handled + ", ".join(COMPLAINTS)


@pytest.mark.parametrize("query", ["?fieldValidation=Warn", ""], ids=["asked-for", "by-default"])
async def test_others_are_warned(wire: Wire, query: str) -> None:
    told = await wire.post(MAPS + query, ODD_MAP)
    assert (told.status, told.body["data"], "color" in told.body) == (201, {"a": "2"}, False)
    assert told.warnings == COMPLAINTS


async def test_who_does_not_care_is_not_bothered(wire: Wire) -> None:
    told = await wire.post(MAPS + "?fieldValidation=Ignore", ODD_MAP)
    assert (told.status, told.warnings) == (201, [])


async def test_unknown_fields_are_found_however_deep(wire: Wire) -> None:
    container = {"name": "c", "image": "x", "imag": "y", "resources": {"limitz": {}}, "securityContext": {"foo": 1}}
    told = await wire.post(
        PODS + "?fieldValidation=Strict", {"metadata": {"name": "p"}, "spec": {"containers": [container], "nope": 1}}
    )
    assert told.status == 400
    for path in ("containers[0].imag", "containers[0].resources.limitz", "containers[0].securityContext.foo", "nope"):
        assert f'unknown field "spec.{path}"' in told.message


@pytest.mark.parametrize(
    ("kind", "patch", "complaint"),
    [
        pytest.param(MERGE, {"color": "red"}, 'unknown field "color"', id="merge"),
        pytest.param(MERGE, b'{"data":{"x":"1","x":"2"}}', 'duplicate field "data.x"', id="merge-twice"),
        pytest.param(STRATEGIC, {"color": "red"}, 'unknown field "color"', id="strategic"),
        pytest.param(JSON_PATCH, [{"op": "add", "path": "/color", "value": 1}], 'unknown field "color"', id="json"),
    ],
)
async def test_patches_are_judged_by_what_they_make(wire: Wire, kind: str, patch: Any, complaint: str) -> None:
    await wire.post(MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}})
    told = await wire.ask("PATCH", MAPS + "/m?fieldValidation=Strict", patch, kind=kind)
    assert (told.status, told.body["reason"]) == (422, "Invalid")
    assert told.body["details"]["causes"][0]["field"] == "patch"
    assert told.message.endswith(f"strict decoding error: {complaint}")
    warned = await wire.ask("PATCH", MAPS + "/m?fieldValidation=Warn", patch, kind=kind)
    assert (warned.status, warned.warnings) == (200, [complaint])


@pytest.mark.parametrize("level", ["Strict", "Warn", "Ignore"])
async def test_nobody_applies_a_field_that_is_not_there(wire: Wire, level: str) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "color": "red"}
    path = MAPS + f"/m?fieldManager=me&fieldValidation={level}"
    told = await wire.ask("PATCH", path, config, kind=APPLY)
    assert told.status == 500
    assert told.message.endswith("/v1, Kind=ConfigMap): .color: field not declared in schema")
