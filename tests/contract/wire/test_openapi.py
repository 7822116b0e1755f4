"""How the kinds look, as OpenAPI v3: what clients that explain, complete and merge rely on."""

from typing import Any

import pytest

from tests.contract.expect import eventually
from tests.contract.kinds import WIDGET, WIDGET_CRD
from tests.contract.wire.asking import Wire

POD = "io.k8s.api.core.v1.Pod"


async def document(wire: Wire, place: str) -> Any:
    index = (await wire.get("/openapi/v3")).body["paths"]
    url = index[place]["serverRelativeURL"]
    assert url.startswith(f"/openapi/v3/{place}?hash=")
    told = await wire.get(url)
    assert told.status == 200
    return told.body


async def test_every_group_has_a_document(wire: Wire) -> None:
    index = (await wire.get("/openapi/v3")).body["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/batch/v1", "apis/policy/v1", "apis/apiextensions.k8s.io/v1"} <= set(index)
    assert (await wire.get("/openapi/v3/apis/nothing/v1")).status == 404


def resolve(doc: Any, schema: Any) -> Any:
    if "allOf" in schema:
        schema = schema["allOf"][0]
    return doc["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def shape(doc: Any, schema: Any, depth: int) -> Any:
    """Fields, types and how they are merged, without words, down to a depth."""
    found = resolve(doc, schema)
    merging = {
        key: value
        for key, value in sorted(schema.items())
        if key.startswith("x-kubernetes-") and "group-version" not in key
    }
    if found.get("type") == "array":
        return ["list", merging, shape(doc, found["items"], depth - 1) if depth else "..."]
    if "additionalProperties" in found:
        return ["map", merging, shape(doc, found["additionalProperties"], depth - 1) if depth else "..."]
    if "properties" not in found:
        return [found.get("type"), found.get("format"), merging, found.get("enum")]
    if not depth:
        return "..."
    members = {name: shape(doc, member, depth - 1) for name, member in found["properties"].items()}
    return ["object", merging, sorted(found.get("required", [])), members]


PINNED = {
    ("api/v1", POD, "spec", "containers"): ["list", {"keys": ["name"], "patch": "merge"}],
    ("api/v1", POD, "spec", "tolerations"): ["list", {"type": "atomic"}],
    ("api/v1", POD, "spec", "nodeSelector"): ["map", {"map": "atomic"}],
    ("api/v1", POD, "spec", "volumes"): ["list", {"keys": ["name"], "patch": "merge,retainKeys"}],
}


@pytest.mark.parametrize(("place", "name", "part", "field"), PINNED, ids=lambda word: str(word).rpartition(".")[2])
async def test_lists_say_how_they_are_merged(wire: Wire, place: str, name: str, part: str, field: str) -> None:
    doc = await document(wire, place)
    spec = resolve(doc, doc["components"]["schemas"][name]["properties"][part])
    kind, merging, *_ = shape(doc, spec["properties"][field], 1)
    short = {
        "keys": merging.get("x-kubernetes-list-map-keys"),
        "patch": merging.get("x-kubernetes-patch-strategy"),
        "type": merging.get("x-kubernetes-list-type") if "x-kubernetes-list-map-keys" not in merging else None,
        "map": merging.get("x-kubernetes-map-type"),
    }
    assert [kind, {key: value for key, value in short.items() if value}] == PINNED[place, name, part, field]


async def test_a_kind_is_found_by_its_group_version_and_kind(wire: Wire) -> None:
    doc = await document(wire, "apis/apps/v1")
    found = doc["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    assert found["x-kubernetes-group-version-kind"] == [{"group": "apps", "kind": "Deployment", "version": "v1"}]
    patch = doc["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Deployment"
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} <= {one["name"] for one in patch["parameters"]}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


async def test_custom_kinds_are_described_as_they_were_defined(wire: Wire) -> None:
    await wire.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGET_CRD)

    async def served() -> bool:
        index = (await wire.get("/openapi/v3")).body["paths"]
        return f"apis/{WIDGET.group}/v1" in index and "Widget" in str(await document(wire, f"apis/{WIDGET.group}/v1"))

    await eventually(served, until=bool)
    doc = await document(wire, f"apis/{WIDGET.group}/v1")
    schema = doc["components"]["schemas"]["dev.ullage.contract.v1.Widget"]
    spec = schema["properties"]["spec"]["properties"]
    assert spec["color"] == {"type": "string", "enum": ["red", "green"], "default": "red"}
    assert spec["parts"]["x-kubernetes-list-map-keys"] == ["name"]
    assert {"apiVersion", "kind", "metadata", "spec", "status"} <= set(schema["properties"])
    patch = doc["paths"][f"/apis/{WIDGET.group}/v1/namespaces/{{namespace}}/widgets/{{name}}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
