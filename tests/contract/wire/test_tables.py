"""Objects as tables: which columns there are, and what stands in them."""

from typing import Any

import pytest

from tests.contract.kinds import GADGET
from tests.contract.wire.asking import MERGE, TABLE, Told, Wire
from ullage.kube.client.resource import JsonObject
from ullage.testing.builders import a_crd, a_lease, a_pod, a_pod_spec, with_meta

PODS = "/api/v1/namespaces/{ns}/pods"
RUNNING = {"running": {"startedAt": "2030-01-01T00:00:00Z"}}


def row(told: Told, at: int = 0) -> dict[str, Any]:
    """A row by the names of its columns, without ages."""
    names = [column["name"] for column in told.body["columnDefinitions"]]
    found = dict(zip(names, told.body["rows"][at]["cells"], strict=True))
    return {name: cell for name, cell in found.items() if name not in ("Age", "Last Seen", "First Seen")}


def column_names(told: Told) -> list[str]:
    return [f"{column['name']}:{column['type']}:{column['priority']}" for column in told.body["columnDefinitions"]]


async def test_a_list_is_a_table(wire: Wire) -> None:
    await wire.post(PODS, a_pod("a", labels={"x": "y"}))
    told = await wire.get(PODS, TABLE)
    assert (told.status, told.body["kind"], told.body["apiVersion"]) == (200, "Table", "meta.k8s.io/v1")
    assert column_names(told)[:5] == [f"{name}:string:0" for name in ("Name", "Ready", "Status", "Restarts", "Age")]
    assert [name.rsplit(":")[2] for name in column_names(told)[5:]] == ["1"] * 4
    carried = told.body["rows"][0]["object"]
    assert (carried["kind"], carried["metadata"]["labels"]) == ("PartialObjectMetadata", {"x": "y"})
    assert int(told.body["metadata"]["resourceVersion"]) > 0


async def test_a_single_object_is_a_table_of_one_row(wire: Wire) -> None:
    made = await wire.post(PODS, a_pod("a"))
    told = await wire.get(PODS + "/a", TABLE)
    assert [cells["cells"][0] for cells in told.body["rows"]] == ["a"]
    assert told.body["metadata"]["resourceVersion"] == made.body["metadata"]["resourceVersion"]


async def test_a_row_carries_as_much_of_its_object_as_is_asked_for(wire: Wire) -> None:
    await wire.post(PODS, a_pod("a"))
    assert (
        "object" not in (await wire.get(PODS + "?includeObject=None", TABLE)).body["rows"][0]
        or (await wire.get(PODS + "?includeObject=None", TABLE)).body["rows"][0]["object"] is None
    )
    whole = (await wire.get(PODS + "?includeObject=Object", TABLE)).body["rows"][0]["object"]
    assert (whole["kind"], whole["spec"]["containers"][0]["name"]) == ("Pod", "main")


async def test_an_empty_table_still_names_its_columns(wire: Wire) -> None:
    told = await wire.get(PODS, TABLE)
    assert (told.body["rows"] or [], len(column_names(told))) == ([], 9)


async def test_who_takes_tables_or_json_gets_tables(wire: Wire) -> None:
    told = await wire.get(PODS, f"{TABLE},application/json")
    assert told.body["kind"] == "Table"
    told = await wire.get(PODS, f"application/json,{TABLE}")
    assert told.body["kind"] == "PodList"


async def test_metadata_alone(wire: Wire) -> None:
    await wire.post(PODS, a_pod("a"))
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    told = await wire.get(PODS, accept)
    assert told.body["kind"] == "PartialObjectMetadataList"
    assert set(told.body["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_an_unknown_form_is_not_acceptable(wire: Wire) -> None:
    told = await wire.get(PODS, "application/json;as=Picture;v=v1;g=meta.k8s.io")
    assert (told.status, told.body["reason"]) == (406, "NotAcceptable")


def _container(name: str = "main", **state: Any) -> JsonObject:
    status = {"name": name, "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    return status | state


@pytest.mark.parametrize(
    ("spec", "status", "ready", "word", "restarts"),
    [
        pytest.param({}, {}, "0/1", "Pending", "0", id="fresh"),
        pytest.param(
            {},
            {"phase": "Running", "containerStatuses": [_container(ready=True, state=RUNNING)]},
            "1/1",
            "Running",
            "0",
            id="running",
        ),
        pytest.param(
            {},
            {"containerStatuses": [_container(state={"waiting": {"reason": "ImagePullBackOff"}})]},
            "0/1",
            "ImagePullBackOff",
            "0",
            id="waiting-with-a-reason",
        ),
        pytest.param(
            {},
            {"phase": "Failed", "containerStatuses": [_container(state={"terminated": {"exitCode": 3}})]},
            "0/1",
            "ExitCode:3",
            "0",
            id="ended-without-a-reason",
        ),
        pytest.param(
            {},
            {"phase": "Failed", "reason": "Evicted"},
            "0/1",
            "Evicted",
            "0",
            id="pod-with-a-reason",
        ),
        pytest.param(
            {"initContainers": [{"name": "i", "image": "i"}]},
            {"initContainerStatuses": [_container("i", state={"waiting": {"reason": "PodInitializing"}})]},
            "0/1",
            "Init:0/1",
            "0",
            id="initialising",
        ),
        pytest.param(
            {"initContainers": [{"name": "i", "image": "i"}]},
            {
                "initContainerStatuses": [
                    _container("i", restartCount=2, state={"terminated": {"exitCode": 1, "reason": "Error"}})
                ]
            },
            "0/1",
            "Init:Error",
            "2",
            id="initialising-failed",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "g"}]},
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            "0/1",
            "SchedulingGated",
            "0",
            id="held-at-a-gate",
        ),
    ],
)
async def test_what_pods_are_doing(
    wire: Wire, spec: JsonObject, status: JsonObject, ready: str, word: str, restarts: str
) -> None:
    made = await wire.post(PODS, {"metadata": {"name": "p"}, "spec": a_pod_spec(**spec)})
    assert made.status == 201, made.body
    changed = await wire.ask("PATCH", PODS + "/p/status", {"status": status}, kind=MERGE)
    assert changed.status == 200, changed.body
    shown = row(await wire.get(PODS, TABLE))
    assert (shown["Ready"], shown["Status"], shown["Restarts"]) == (ready, word, restarts)
    assert [shown[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")] == ["<none>"] * 4


async def test_a_finished_pod_is_completed(wire: Wire) -> None:
    await wire.post(PODS, a_pod("p"))
    ended = _container(state={"terminated": {"exitCode": 0, "reason": "Completed"}})
    await wire.ask(
        "PATCH", PODS + "/p/status", {"status": {"phase": "Succeeded", "containerStatuses": [ended]}}, kind=MERGE
    )
    told = await wire.get(PODS, TABLE)
    assert row(told)["Status"] == "Completed"
    assert told.body["rows"][0]["conditions"][0]["type"] == "Completed"


async def test_a_leaving_pod_is_terminating(wire: Wire) -> None:
    await wire.post(PODS, with_meta(a_pod("p"), finalizers=["a.b/c"]))
    await wire.ask("DELETE", PODS + "/p?gracePeriodSeconds=0")
    assert row(await wire.get(PODS, TABLE))["Status"] == "Terminating"
    await wire.ask("PATCH", PODS + "/p", {"metadata": {"finalizers": None}}, kind=MERGE)


def _workload(kind: str, **spec: Any) -> JsonObject:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "w"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template} | spec,
    }


WIDE = {"Containers": "c", "Images": "i:1", "Selector": "a=b"}


@pytest.mark.parametrize(
    ("path", "body", "shown"),
    [
        pytest.param(
            "/apis/apps/v1/namespaces/{ns}/deployments",
            _workload("Deployment", replicas=3),
            {"Name": "w", "Ready": "0/3", "Up-to-date": 0, "Available": 0} | WIDE,
            id="deployment",
        ),
        pytest.param(
            "/apis/apps/v1/namespaces/{ns}/replicasets",
            _workload("ReplicaSet", replicas=2),
            {"Name": "w", "Desired": 2, "Current": 0, "Ready": 0} | WIDE,
            id="replica-set",
        ),
        pytest.param(
            "/apis/apps/v1/namespaces/{ns}/statefulsets",
            _workload("StatefulSet", serviceName="s", replicas=2),
            {"Name": "w", "Ready": "0/2", "Containers": "c", "Images": "i:1"},
            id="stateful-set",
        ),
        pytest.param(
            "/apis/apps/v1/namespaces/{ns}/daemonsets",
            _workload("DaemonSet"),
            {
                "Name": "w",
                "Desired": 0,
                "Current": 0,
                "Ready": 0,
                "Up-to-date": 0,
                "Available": 0,
                "Node Selector": "<none>",
            }
            | WIDE,
            id="daemon-set",
        ),
        pytest.param(
            "/apis/batch/v1/namespaces/{ns}/jobs",
            {
                "metadata": {"name": "w"},
                "spec": {
                    "completions": 4,
                    "manualSelector": True,
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]},
                    },
                },
            },
            {"Name": "w", "Status": "Running", "Completions": "0/4", "Duration": ""} | WIDE,
            id="job",
        ),
        pytest.param(
            "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
            {"metadata": {"name": "w"}, "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}},
            {"Name": "w", "Min Available": "50%", "Max Unavailable": "N/A", "Allowed Disruptions": 0},
            id="budget",
        ),
        pytest.param(
            "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
            a_lease("w", "me"),
            {"Name": "w", "Holder": "me"},
            id="lease",
        ),
        pytest.param(
            "/api/v1/namespaces/{ns}/configmaps",
            {"metadata": {"name": "w"}, "data": {"a": "1"}, "binaryData": {"b": "aGk="}},
            {"Name": "w", "Data": 2},
            id="config-map",
        ),
        pytest.param(
            "/api/v1/namespaces/{ns}/secrets",
            {"metadata": {"name": "w"}, "stringData": {"a": "1"}},
            {"Name": "w", "Type": "Opaque", "Data": 1},
            id="secret",
        ),
        pytest.param(
            "/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": "w"}}, {"Name": "w"}, id="account"
        ),
        pytest.param(
            "/api/v1/namespaces/{ns}/services",
            {"metadata": {"name": "w"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}},
            {
                "Name": "w",
                "Type": "ClusterIP",
                "Cluster-IP": "None",
                "External-IP": "<none>",
                "Port(s)": "80/TCP",
                "Selector": "a=b",
            },
            id="service",
        ),
        pytest.param(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings",
            {
                "metadata": {"name": "w"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
                "subjects": [
                    {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
                    {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                ],
            },
            {"Name": "w", "Role": "ClusterRole/r", "Users": "u", "Groups": "", "ServiceAccounts": "n/s"},
            id="role-binding",
        ),
        pytest.param(
            "/api/v1/namespaces/{ns}/persistentvolumeclaims",
            {
                "metadata": {"name": "w"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "fast",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
            {
                "Name": "w",
                "Status": "Pending",
                "Volume": "",
                "Capacity": "",
                "Access Modes": "",
                "StorageClass": "fast",
                "VolumeAttributesClass": "<unset>",
                "VolumeMode": "Filesystem",
            },
            id="volume-claim",
        ),
        pytest.param(
            "/api/v1/namespaces/{ns}/events",
            {
                "metadata": {"name": "w"},
                "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}"},
                "reason": "R",
                "message": "happened ",
                "type": "Normal",
                "source": {"component": "c", "host": "h"},
                "firstTimestamp": "2026-01-01T00:00:00Z",
                "lastTimestamp": "2026-01-01T00:00:00Z",
                "count": 3,
            },
            {
                "Type": "Normal",
                "Reason": "R",
                "Object": "pod/p",
                "Subobject": "",
                "Source": "c, h",
                "Message": "happened",
                "Count": 3,
                "Name": "w",
            },
            id="event",
        ),
    ],
)
async def test_rows_of_other_kinds(wire: Wire, path: str, body: JsonObject, shown: dict[str, Any]) -> None:
    if "involvedObject" in body:
        body = body | {"involvedObject": body["involvedObject"] | {"namespace": wire.namespace}}
    made = await wire.post(path, body)
    assert made.status == 201, made.body
    told = await wire.get(path + "/w", TABLE)
    assert row(told) == shown


async def test_nodes(wire: Wire) -> None:
    name = f"{wire.namespace}-node"
    node = {
        "metadata": {"name": name, "labels": {"node-role.kubernetes.io/gpu": "", "node-role.kubernetes.io/a": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    await wire.post("/api/v1/nodes", node)
    try:
        shown = row(await wire.get(f"/api/v1/nodes/{name}", TABLE))
    finally:
        await wire.ask("DELETE", f"/api/v1/nodes/{name}")
    assert shown == {
        "Name": name,
        "Status": "Ready,SchedulingDisabled",
        "Roles": "a,gpu",
        "Version": "",
        "Internal-IP": "10.0.0.9",
        "External-IP": "<none>",
        "OS-Image": "<unknown>",
        "Kernel-Version": "<unknown>",
        "Container-Runtime": "<unknown>",
    }


COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Ids", "type": "string", "jsonPath": ".spec.ids"},
    {"name": "Second", "type": "integer", "jsonPath": ".spec.ids[1]"},
    {"name": "Label", "type": "string", "jsonPath": ".metadata.labels.a\\.b/c"},
    {"name": "Map", "type": "string", "jsonPath": ".spec.map", "priority": 1, "description": "all of it"},
    {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
    {"name": "Wrong", "type": "integer", "jsonPath": ".spec.word"},
    {"name": "When", "type": "date", "jsonPath": ".spec.never"},
]


async def test_custom_objects_show_what_their_definition_asks_for(wire: Wire) -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = a_crd(GADGET, {"spec": free, "status": free})
    crd["metadata"]["name"] = "shown.wire.ullage.dev"
    crd["spec"] |= {"group": "wire.ullage.dev", "names": {"plural": "shown", "kind": "Shown"}}
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = COLUMNS
    made = await wire.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    assert made.status in (201, 409), made.body
    path = "/apis/wire.ullage.dev/v1/shown"
    body: JsonObject = {"apiVersion": "wire.ullage.dev/v1", "kind": "Shown"}
    body |= {"metadata": {"name": wire.namespace, "labels": {"a.b/c": "d"}}}
    body |= {"spec": {"size": 3, "ids": [4, 5], "map": {"z": 1, "a": True}, "on": False, "word": "x"}}
    body |= {"status": {"conditions": [{"type": "Other", "status": "No"}, {"type": "Ready", "status": "Yes"}]}}
    for _ in range(100):
        made = await wire.post(path, body)
        if made.status == 201:
            break
    told = await wire.get(f"{path}/{wire.namespace}", TABLE)
    await wire.ask("DELETE", f"{path}/{wire.namespace}")
    assert row(told) == {
        "Name": wire.namespace,
        "Size": 3,
        "Ready": "Yes",
        "Ids": "[4,5]",
        "Second": 5,
        "Label": "d",
        "Map": '{"a":true,"z":1}',
        "On": False,
        "Wrong": None,
        "When": None,
    }
    assert column_names(told)[6] == "Map:string:1"
