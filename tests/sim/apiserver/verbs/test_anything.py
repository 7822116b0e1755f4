"""Whatever is sent gets an answer: no request makes the server itself fail, and no refused one leaves a trace."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.apiserver.asking import (
    APPLY,
    BUDGETS,
    DEFINITIONS,
    MAPS,
    MERGE,
    PODS,
    Client,
    HandClock,
    a_definition,
)
from ullage.sim.apiserver.server import SimulatedApiServer
from ullage.testing.builders import a_pod

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.sampled_from(["", "x", "B_", "9", "2026-01-01T00:00:00Z", "Always", "5%"]),
    st.lists(st.sampled_from([None, 0, "x", {}, []]), max_size=2),
    st.dictionaries(
        st.sampled_from(["name", "key", "a/b", "matchLabels"]), st.sampled_from([None, 1, "x", {}, []]), max_size=2
    ),
)

_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": a_pod("")["spec"]}
_ONCE = {**a_pod("")["spec"], "restartPolicy": "Never"}
_WORKLOAD = {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE, "replicas": 1}
_RICH_POD = a_pod(
    "x",
    labels={"a": "b"},
    nodeSelector={"a": "b"},
    tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}, "topologyKey": "zone"}]
        },
    },
    topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    overhead={"cpu": "1"},
    schedulingGates=[{"name": "g"}],
    priorityClassName="system-node-critical",
    containers=[
        {
            "name": "c",
            "image": "i",
            "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}},
            "ports": [{"containerPort": 80}],
            "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "readinessProbe": {"httpGet": {"port": 80}},
        }
    ],
)
OBJECTS: list[tuple[str, dict[str, Any]]] = [
    (PODS, _RICH_POD),
    ("/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
                       "status": {"capacity": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]}}),
    ("/api/v1/namespaces", {"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}}),
    (MAPS, {"metadata": {"name": "n", "ownerReferences": [{"kind": "Pod", "name": "x", "uid": "u", "apiVersion": "v1"}],
                         "finalizers": ["a/b"], "annotations": {"a": "b"}}, "data": {"a": "b"}}),
    ("/api/v1/namespaces/default/secrets", {"metadata": {"name": "n"}, "stringData": {"a": "b"}, "type": "Opaque"}),
    ("/api/v1/namespaces/default/services", {"metadata": {"name": "n"}, "spec": {"ports": [{"port": 80}]}}),
    ("/api/v1/namespaces/default/events", {"metadata": {"name": "n"}, "involvedObject": {"kind": "Pod"}}),
    ("/api/v1/namespaces/default/persistentvolumeclaims",
     {"metadata": {"name": "n"}, "spec": {"accessModes": ["x"], "resources": {"requests": {"storage": "1Gi"}}}}),
    ("/apis/apps/v1/namespaces/default/deployments",
     {"metadata": {"name": "n"}, "spec": {**_WORKLOAD, "strategy": {}}}),
    ("/apis/apps/v1/namespaces/default/statefulsets",
     {"metadata": {"name": "n"}, "spec": {**_WORKLOAD, "serviceName": "s"}}),
    ("/apis/batch/v1/namespaces/default/jobs",
     {"metadata": {"name": "n"}, "spec": {"completions": 1, "template": {"spec": _ONCE}}}),
    ("/apis/coordination.k8s.io/v1/namespaces/default/leases",
     {"metadata": {"name": "n"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 5}}),
    (BUDGETS, {"metadata": {"name": "n"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
               "status": {"disruptionsAllowed": 1}}),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "n"}, "value": 5, "globalDefault": False}),
    (DEFINITIONS,
     a_definition({"type": "object", "properties": {"a": {"type": "string"}}}, subresources={"status": {}})),
]  # fmt: skip
KINDS = {
    PODS: ("v1", "Pod"), "/api/v1/nodes": ("v1", "Node"), MAPS: ("v1", "ConfigMap"),
    "/apis/apps/v1/namespaces/default/deployments": ("apps/v1", "Deployment"),
}  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path in a document."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, (*path, index))
    return found


def with_junk(document: dict[str, Any], path: tuple[Any, ...], junk: Any) -> dict[str, Any]:
    broken = copy.deepcopy(document)
    target: Any = broken
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = junk
    return broken


def accepted_or_refused(status: int) -> bool:
    return status in (200, 201, 400, 403, 404, 409, 422, 500)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(OBJECTS), st.data(), JUNK)
def test_any_body_gets_an_answer(made: tuple[str, dict[str, Any]], data: st.DataObject, junk: Any) -> None:
    path, document = made
    client = Client(SimulatedApiServer(HandClock(), seed=1))
    client.get(path)
    before = client.server.revision
    broken = with_junk(document, data.draw(st.sampled_from(places(document))), junk)
    answer = client.post(path, broken)
    assert accepted_or_refused(answer.status)
    if answer.status >= 400:
        assert client.server.revision == before


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(OBJECTS), st.data(), JUNK, st.sampled_from(["", "/status"]))
def test_any_patch_gets_an_answer(made: tuple[str, dict[str, Any]], data: st.DataObject, junk: Any, part: str) -> None:
    path, document = made
    client = Client(SimulatedApiServer(HandClock(), seed=1))
    assert client.post(path, document).status in (201, 403, 422)
    name = document["metadata"]["name"]
    broken = with_junk(document, data.draw(st.sampled_from(places(document))), junk)
    before = client.get(f"{path}/{name}").body
    answer = client.ask("PATCH", f"{path}/{name}{part}", broken, MERGE)
    assert accepted_or_refused(answer.status)
    if answer.status >= 400:
        assert client.get(f"{path}/{name}").body == before


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([made for made in OBJECTS if made[0] in KINDS]), st.data(), JUNK)
def test_any_configuration_gets_an_answer(made: tuple[str, dict[str, Any]], data: st.DataObject, junk: Any) -> None:
    path, document = made
    version, kind = KINDS[path]
    document = {"apiVersion": version, "kind": kind, **document}
    client = Client(SimulatedApiServer(HandClock(), seed=1))
    name = document["metadata"]["name"]
    client.apply(f"{path}/{name}", document, "one")
    broken = with_junk(document, data.draw(st.sampled_from(places(document))), junk)
    answer = client.ask("PATCH", f"{path}/{name}", broken, APPLY, fieldManager="two", force="true")
    assert accepted_or_refused(answer.status)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["binding", "eviction", "status"]),
    JUNK,
    st.sampled_from(["", "metadata", "target", "deleteOptions"]),
)
def test_any_body_of_a_part_gets_an_answer(part: str, junk: Any, member: str) -> None:
    client = Client(SimulatedApiServer(HandClock(), seed=1))
    client.post(PODS, a_pod("a"))
    sound: dict[str, Any] = {"metadata": {"name": "a"}, "target": {"name": "n"}}
    body = {**sound, member: junk} if member else junk
    method = "PUT" if part == "status" else "POST"
    assert accepted_or_refused(client.ask(method, f"{PODS}/a/{part}", body).status)
