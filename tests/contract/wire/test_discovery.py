"""What a server says it serves: in one document or in many, the same of both servers for what both serve."""

from typing import Any

import pytest

from tests.contract.wire.asking import Told, Wire

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
SERVED = {
    "/api/v1": ("configmaps", "events", "namespaces", "nodes", "persistentvolumeclaims", "pods", "secrets", "services"),
    "/apis/apps/v1": ("daemonsets", "deployments", "replicasets", "statefulsets"),
    "/apis/batch/v1": ("jobs",),
    "/apis/policy/v1": ("poddisruptionbudgets",),
    "/apis/coordination.k8s.io/v1": ("leases",),
    "/apis/scheduling.k8s.io/v1": ("priorityclasses",),
    "/apis/apiextensions.k8s.io/v1": ("customresourcedefinitions",),
    "/apis/authorization.k8s.io/v1": ("selfsubjectaccessreviews",),
}
SINGULAR = {
    "pods": "pod",
    "leases": "lease",
    "deployments": "deployment",
    "nodes": "node",
    "priorityclasses": "priorityclass",
}
SHORT = {"pods": ["po"], "deployments": ["deploy"], "customresourcedefinitions": ["crd", "crds"], "leases": None}
CATEGORIES = {"pods": ["all"], "jobs": ["all"], "nodes": None, "customresourcedefinitions": ["api-extensions"]}
PARTS = {
    "pods": {"binding": "Binding", "eviction": "Eviction", "log": "Pod", "status": "Pod"},
    "deployments": {"scale": "Scale", "status": "Deployment"},
    "namespaces": {"finalize": "Namespace", "status": "Namespace"},
}
EVERYTHING = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
VERBS = {
    "pods": EVERYTHING,
    "namespaces": [verb for verb in EVERYTHING if verb != "deletecollection"],
    "selfsubjectaccessreviews": ["create"],
}


def by_name(told: Told) -> dict[str, Any]:
    return {one["name"]: one for one in told.body["resources"]}


@pytest.mark.parametrize("place", SERVED)
async def test_each_group_lists_its_resources(wire: Wire, place: str) -> None:
    told = await wire.get(place)
    assert (told.body["kind"], told.body["groupVersion"]) == (
        "APIResourceList",
        place.removeprefix("/api/").removeprefix("/apis/"),
    )
    found = by_name(told)
    for name in SERVED[place]:
        one = found[name]
        assert one["singularName"] == SINGULAR.get(name, one["singularName"])
        assert one.get("shortNames") == SHORT.get(name, one.get("shortNames"))
        assert one.get("categories") == CATEGORIES.get(name, one.get("categories"))
        assert one["verbs"] == VERBS.get(name, one["verbs"])
        for part, kind in PARTS.get(name, {}).items():
            assert found[f"{name}/{part}"]["kind"] == kind


async def test_all_in_one_document_says_the_same(wire: Wire) -> None:
    for root, groups in (("/api", [""]), ("/apis", ["apps", "policy", "apiextensions.k8s.io"])):
        told = await wire.get(root, f"{AGGREGATED},application/json")
        assert (told.body["kind"], told.body["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
        items = {item["metadata"].get("name", ""): item for item in told.body["items"]}
        for group in groups:
            version = items[group]["versions"][0]
            listed = by_name(await wire.get(f"{root}/{group}/{version['version']}".replace("//", "/")))
            for one in version["resources"]:
                other = listed[one["resource"]]
                assert (one["scope"] == "Namespaced", one["verbs"]) == (other["namespaced"], other["verbs"])
                assert one["responseKind"]["kind"] == other["kind"]
                assert one.get("shortNames") == other.get("shortNames")
                parts = {part["subresource"]: part["verbs"] for part in one.get("subresources", [])}
                assert parts == {
                    name.partition("/")[2]: entry["verbs"]
                    for name, entry in listed.items()
                    if name.startswith(one["resource"] + "/")
                }


async def test_who_does_not_ask_for_one_document_gets_many(wire: Wire) -> None:
    assert (await wire.get("/apis", "application/json")).body["kind"] == "APIGroupList"
    assert (await wire.get("/apis", "*/*")).body["kind"] == "APIGroupList"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_health_is_a_word(wire: Wire, path: str) -> None:
    told = await wire.get(path, "*/*")
    assert (told.status, told.body) == (200, "ok")


async def test_version(wire: Wire) -> None:
    said = (await wire.get("/version")).body
    major, minor = said["gitVersion"].removeprefix("v").split(".")[:2]
    assert (said["major"], said["minor"]) == (major, minor)


async def test_paths_nobody_serves(wire: Wire) -> None:
    assert (await wire.get("/apis/nothing.example/v1/things")).status == 404
    assert (await wire.get("/api/v1/namespaces/{ns}/gadgets")).status == 404
