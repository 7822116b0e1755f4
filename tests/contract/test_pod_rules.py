"""Pods the API server refuses, and changes of a pod it refuses."""

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import POD
from ullage.errors import BadRequest, Invalid
from ullage.kube.client.api import JsonPatch, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.testing.builders import Strings, a_container, a_pod

INVALID, REQUIRED = "FieldValueInvalid", "FieldValueRequired"
DUPLICATE, UNSUPPORTED, FORBIDDEN = "FieldValueDuplicate", "FieldValueNotSupported", "FieldValueForbidden"
GATE = {"name": "ullage.dev/wait"}
RESOURCES = "spec.containers[0].resources"
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def asking(*, requests: Strings | None = None, limits: Strings | None = None) -> JsonObject:
    return {"containers": [a_container(requests=requests, limits=limits)]}


def required_affinity(*terms: JsonObject) -> JsonObject:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("spec", "causes", "says"),
    [
        pytest.param({"containers": []}, [("spec.containers", REQUIRED)], "", id="no-containers"),
        pytest.param(
            {"containers": [a_container(), a_container()]},
            [("spec.containers[1].name", DUPLICATE)],
            'Duplicate value: "main"',
            id="two-containers-of-one-name",
        ),
        pytest.param(
            {"containers": [{"name": "a"}]}, [("spec.containers[0].image", REQUIRED)], "", id="container-without-image"
        ),
        pytest.param(
            {"containers": [a_container("Not_Valid")]},
            [("spec.containers[0].name", INVALID)],
            "a lowercase RFC 1123 label",
            id="container-name-with-capitals",
        ),
        pytest.param(
            asking(requests={"nvidia.com/gpu": "1"}),
            [(f"{RESOURCES}.limits", REQUIRED)],
            "Limit must be set for non overcommitable resources",
            id="gpu-request-without-limit",
        ),
        pytest.param(
            asking(requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "2"}),
            [(f"{RESOURCES}.requests", INVALID)],
            "must be equal to nvidia.com/gpu limit of 2",
            id="gpu-request-below-limit",
        ),
        pytest.param(
            asking(limits={"nvidia.com/gpu": "500m"}),
            [(f"{RESOURCES}.limits[nvidia.com/gpu]", INVALID), (f"{RESOURCES}.requests[nvidia.com/gpu]", INVALID)],
            "must be an integer",
            id="half-a-gpu",
        ),
        pytest.param(
            asking(requests={"cpu": "2"}, limits={"cpu": "1"}),
            [(f"{RESOURCES}.requests", INVALID)],
            "must be less than or equal to cpu limit of 1",
            id="request-above-limit",
        ),
        pytest.param(
            asking(requests={"cpu": "-1"}),
            [(f"{RESOURCES}.requests[cpu]", INVALID)],
            "must be greater than or equal to 0",
            id="negative-request",
        ),
        pytest.param(
            asking(requests={"bananas": "1"}),
            [(f"{RESOURCES}.requests[bananas]", INVALID)],
            "must be a standard resource type or fully qualified",
            id="resource-nobody-knows",
        ),
        pytest.param(
            {"restartPolicy": "Sometimes"},
            [("spec.restartPolicy", UNSUPPORTED)],
            'supported values: "Always", "OnFailure", "Never"',
            id="restart-policy-nobody-knows",
        ),
        pytest.param(
            {"schedulingGates": [GATE], "nodeName": "n1"},
            [("spec.nodeName", FORBIDDEN)],
            "cannot be set until all schedulingGates have been cleared",
            id="gated-and-on-a-node",
        ),
        pytest.param(
            {"schedulingGates": [GATE, GATE]}, [("spec.schedulingGates[1]", DUPLICATE)], "", id="one-gate-twice"
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Sorta"}]},
            [("spec.tolerations[0].operator", UNSUPPORTED)],
            'supported values: "Equal", "Exists"',
            id="toleration-operator-nobody-knows",
        ),
        pytest.param(
            {"nodeSelector": {"a b": "c"}},
            [("spec.nodeSelector", INVALID)],
            "name part must consist of alphanumeric characters",
            id="node-selector-key-with-space",
        ),
        pytest.param(
            required_affinity(), [(TERMS, REQUIRED)], "must have at least one node selector term", id="no-terms"
        ),
        pytest.param(
            required_affinity({"matchExpressions": [{"key": "a", "operator": "Sorta"}]}),
            [(f"{TERMS}[0].matchExpressions[0].operator", INVALID)],
            "not a valid selector operator",
            id="affinity-operator-nobody-knows",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Maybe"}]},
            [
                ("spec.topologySpreadConstraints[0].maxSkew", INVALID),
                ("spec.topologySpreadConstraints[0].topologyKey", REQUIRED),
                ("spec.topologySpreadConstraints[0].whenUnsatisfiable", UNSUPPORTED),
            ],
            "must be greater than zero",
            id="spread-wrong-in-three-ways",
        ),
        pytest.param(
            {"containers": [a_container() | {"ports": [{"containerPort": 99999}]}]},
            [("spec.containers[0].ports[0].containerPort", INVALID)],
            "must be between 1 and 65535, inclusive",
            id="port-too-large",
        ),
    ],
)
async def test_pod_is_refused_by_field(
    api: KubeApi, ns: str, spec: JsonObject, causes: list[tuple[str, str]], says: str
) -> None:
    with refused(Invalid, reason="Invalid", says=says, causes=causes):
        await api.create(POD, a_pod("a", **spec), ns)


async def test_message_names_kind_and_object(api: KubeApi, ns: str) -> None:
    with refused(Invalid, reason="Invalid", says='Pod "a" is invalid: spec.containers: Required value'):
        await api.create(POD, a_pod("a", containers=[]), ns)


async def test_quantity_nobody_can_read_is_a_bad_request(api: KubeApi, ns: str) -> None:
    with refused(BadRequest, reason="BadRequest", says="quantities must match the regular expression"):
        await api.create(POD, a_pod("a", requests={"cpu": "lots"}), ns)


REPLACE_RESOURCES = {"op": "replace", "path": "/spec/containers/0/resources", "value": {"requests": {"cpu": "1"}}}


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(MergePatch({"spec": {"nodeName": "n1"}}), id="node"),
        pytest.param(MergePatch({"spec": {"nodeSelector": {"a": "b"}}}), id="node-selector"),
        pytest.param(MergePatch({"spec": {"schedulerName": "another"}}), id="scheduler"),
        pytest.param(MergePatch({"spec": {"priority": 7}}), id="priority"),
        pytest.param(MergePatch({"spec": {"restartPolicy": "Never"}}), id="restart-policy"),
        pytest.param(JsonPatch([REPLACE_RESOURCES]), id="resources"),
    ],
)
async def test_spec_of_a_pod_is_fixed(api: KubeApi, ns: str, patch: MergePatch | JsonPatch) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    says = "pod updates may not change fields other than"
    with refused(Invalid, reason="Invalid", says=says, causes=[("spec", FORBIDDEN)]):
        await api.patch(POD, "a", patch, ns)
    assert await api.get(POD, "a", ns) == made


async def test_image_may_change(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    operation = {"op": "replace", "path": "/spec/containers/0/image", "value": "example.com/main:2"}
    patched = await api.patch(POD, "a", JsonPatch([operation]), ns)
    assert patched["spec"]["containers"][0]["image"] == "example.com/main:2"
    assert patched["metadata"]["generation"] == 2


async def test_tolerations_may_be_added(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    operation = {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "gpu", "operator": "Exists"}}
    patched = await api.patch(POD, "a", JsonPatch([operation]), ns)
    assert {"key": "gpu", "operator": "Exists"} in patched["spec"]["tolerations"]


async def test_tolerations_may_not_be_taken_away(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a", tolerations=[{"key": "gpu", "operator": "Exists"}]), ns)
    with refused(Invalid, reason="Invalid"):
        await api.patch(POD, "a", JsonPatch([{"op": "remove", "path": "/spec/tolerations/0"}]), ns)


async def test_deadline_may_be_set_and_lowered_and_not_raised(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    for seconds in (20, 10):
        await api.patch(POD, "a", MergePatch({"spec": {"activeDeadlineSeconds": seconds}}), ns)
    says = "must be less than or equal to previous value"
    with refused(Invalid, reason="Invalid", says=says, causes=[("spec.activeDeadlineSeconds", INVALID)]):
        await api.patch(POD, "a", MergePatch({"spec": {"activeDeadlineSeconds": 20}}), ns)


async def test_gates_may_not_be_added(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    says = "only deletion is allowed, but found new scheduling gate 'ullage.dev/wait'"
    with refused(Invalid, reason="Invalid", says=says, causes=[("spec.schedulingGates[0].name", FORBIDDEN)]):
        await api.patch(POD, "a", MergePatch({"spec": {"schedulingGates": [GATE]}}), ns)


async def test_gated_pod_may_not_be_widened(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a", schedulingGates=[GATE], nodeSelector={"zone": "z1"}), ns)
    says = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    with refused(Invalid, reason="Invalid", says=says, causes=[("spec.nodeSelector", INVALID)]):
        await api.patch(POD, "a", MergePatch({"spec": {"nodeSelector": None}}), ns)


async def test_labels_and_annotations_may_always_change(api: KubeApi, ns: str, node: str) -> None:
    await api.create(POD, a_pod("a", nodeName=node), ns)
    patch = MergePatch({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})
    patched = await api.patch(POD, "a", patch, ns)
    assert patched["metadata"]["labels"] == {"a": "b"}
    assert patched["metadata"]["generation"] == 1
