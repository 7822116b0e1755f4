"""Definitions: kinds come into service with them, change with them and leave with them."""

from typing import Any

from tests.sim.apiserver.asking import DEFINITIONS, WIDGETS, Client, a_definition, a_widget

ANY: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_a_kind_is_served_as_soon_as_it_is_defined(client: Client) -> None:
    assert client.get(WIDGETS).status == 404
    made = client.post(DEFINITIONS, a_definition(ANY)).body
    held = {condition["type"]: condition["status"] for condition in made["status"]["conditions"]}
    assert held == {"NamesAccepted": "True", "Established": "True"}
    assert client.get(WIDGETS).body["items"] == []
    assert [r["name"] for r in client.get("/apis/example.dev/v1").body["resources"]] == ["widgets"]
    assert "example.dev" in [group["name"] for group in client.get("/apis").body["groups"]]


def test_a_stricter_schema_binds_the_next_write(client: Client) -> None:
    definition = client.post(DEFINITIONS, a_definition(ANY)).body
    client.post(WIDGETS, a_widget("a", n="many"))
    versions = definition["spec"]["versions"]
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
    }
    assert client.ask("PUT", f"{DEFINITIONS}/widgets.example.dev", definition).status == 200
    assert client.post(WIDGETS, a_widget("b", n="many")).status == 422
    assert client.get(f"{WIDGETS}/a").body["spec"] == {"n": "many"}


def test_versions_share_their_objects(client: Client) -> None:
    definition = a_definition(ANY)
    definition["spec"]["versions"].append({**definition["spec"]["versions"][0], "name": "v2", "storage": False})
    client.post(DEFINITIONS, definition)
    client.post(WIDGETS, a_widget("a", x=1))
    other = client.get(WIDGETS.replace("/v1/", "/v2/") + "/a").body
    assert (other["apiVersion"], other["spec"]) == ("example.dev/v2", {"x": 1})
    changed = client.merge(WIDGETS.replace("/v1/", "/v2/") + "/a", {"spec": {"x": 2}}).body
    assert client.get(f"{WIDGETS}/a").body["metadata"] == changed["metadata"]
    groups = {group["name"]: group for group in client.get("/apis").body["groups"]}
    assert groups["example.dev"]["preferredVersion"]["version"] == "v2"


def test_status_is_a_part_of_its_own_only_where_the_definition_says_so(client: Client) -> None:
    client.post(DEFINITIONS, a_definition(ANY, subresources={"status": {}}))
    made = client.post(WIDGETS, {**a_widget("a", x=1), "status": {}}).body
    assert "status" not in made
    client.merge(f"{WIDGETS}/a/status", {"status": {}, "spec": {"x": 2}, "metadata": {"labels": {"a": "b"}}})
    after = client.get(f"{WIDGETS}/a").body
    assert (after["spec"], after["status"], after["metadata"].get("labels")) == ({"x": 1}, {}, None)
    assert after["metadata"]["generation"] == 1
    assert client.merge(f"{WIDGETS}/a", {"spec": {"x": 2}}).body["metadata"]["generation"] == 2


def test_without_the_part_status_is_an_ordinary_field(client: Client) -> None:
    definition = a_definition(ANY)
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"]["status"] = ANY
    client.post(DEFINITIONS, definition)
    made = client.post(WIDGETS, {**a_widget("a"), "status": {"x": 1}}).body
    assert made["status"] == {"x": 1}
    assert client.merge(f"{WIDGETS}/a", {"status": {"x": 2}}).body["metadata"]["generation"] == 2


def test_deleting_a_definition_deletes_its_objects(client: Client) -> None:
    client.post(DEFINITIONS, a_definition(ANY))
    client.post(WIDGETS, a_widget("a"))
    client.delete(f"{DEFINITIONS}/widgets.example.dev")
    assert client.get(WIDGETS).status == 404
    client.post(DEFINITIONS, a_definition(ANY))
    assert client.get(WIDGETS).body["items"] == []


def test_an_object_that_is_held_holds_its_definition(client: Client) -> None:
    client.post(DEFINITIONS, a_definition(ANY))
    held = a_widget("a")
    held["metadata"]["finalizers"] = ["example.dev/hold"]
    client.post(WIDGETS, held)
    client.delete(f"{DEFINITIONS}/widgets.example.dev")
    assert client.get(f"{WIDGETS}/a").body["metadata"]["deletionTimestamp"]
    refused = client.post(WIDGETS, a_widget("b"))
    assert "create not allowed while custom resource definition is terminating" in refused.message
    client.merge(f"{WIDGETS}/a", {"metadata": {"finalizers": None}})
    assert client.get(f"{DEFINITIONS}/widgets.example.dev").status == 404


def test_fields_can_be_made_selectable(client: Client) -> None:
    schema = {"type": "object", "properties": {"color": {"type": "string"}}}
    client.post(DEFINITIONS, a_definition(schema, selectableFields=[{"jsonPath": ".spec.color"}]))
    client.post(WIDGETS, a_widget("a", color="red"))
    client.post(WIDGETS, a_widget("b", color="blue"))
    found = client.get(WIDGETS, fieldSelector="spec.color=blue").body["items"]
    assert [item["metadata"]["name"] for item in found] == ["b"]


def test_scale_reads_and_writes_where_the_definition_points(client: Client) -> None:
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    client.post(DEFINITIONS, a_definition(ANY, subresources={"scale": paths}))
    client.post(WIDGETS, a_widget("a", size=2))
    assert client.get(f"{WIDGETS}/a/scale").body["spec"] == {"replicas": 2}
    client.merge(f"{WIDGETS}/a/scale", {"spec": {"replicas": 5}})
    assert client.get(f"{WIDGETS}/a").body["spec"] == {"size": 5}
