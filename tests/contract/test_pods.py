"""Pods as the API server sees them: what it fills in and works out."""

from typing import Any

import pytest

from tests.contract.kinds import POD
from tests.contract.steps import condition
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import PODS
from ullage.testing.builders import a_container, a_pod

GATE = {"name": "ullage.dev/wait"}


async def test_what_a_pod_does_not_say_is_filled_in(api: KubeApi, ns: str) -> None:
    spec = (await api.create(POD, a_pod("a"), ns))["spec"]
    expected = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "enableServiceLinks": True,
        "securityContext": {},
    }
    assert {key: spec[key] for key in expected} == expected


async def test_what_a_container_does_not_say_is_filled_in(api: KubeApi, ns: str) -> None:
    (container,) = (await api.create(POD, a_pod("a"), ns))["spec"]["containers"]
    assert container == {
        "name": "main",
        "image": "example.com/main:1",
        "imagePullPolicy": "IfNotPresent",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }


async def test_new_pod_is_pending(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a") | {"status": {"phase": "Running", "hostIP": "10.0.0.1"}}, ns)
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_unhealthy_nodes_are_tolerated_for_five_minutes(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a", tolerations=[{"key": "gpu", "operator": "Exists"}]), ns)

    def for_a_while(key: str) -> JsonObject:
        return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}

    assert made["spec"]["tolerations"] == [
        {"key": "gpu", "operator": "Exists"},
        for_a_while("node.kubernetes.io/not-ready"),
        for_a_while("node.kubernetes.io/unreachable"),
    ]


async def test_pod_that_tolerates_everything_needs_no_more(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a", tolerations=[{"operator": "Exists"}]), ns)
    assert made["spec"]["tolerations"] == [{"operator": "Exists"}]


async def test_limits_are_requests_where_none_are_said(api: KubeApi, ns: str) -> None:
    limits = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "2"}
    made = await api.create(POD, a_pod("a", containers=[a_container(limits=limits, requests={"cpu": "1"})]), ns)
    assert made["spec"]["containers"][0]["resources"] == {"limits": limits, "requests": limits | {"cpu": "1"}}


@pytest.mark.parametrize(
    ("container", "requests"),
    [
        pytest.param({}, {"cpu": "2", "memory": "1Gi"}, id="containers-say-nothing"),
        pytest.param({"requests": {"cpu": "1"}}, {"cpu": "1", "memory": "1Gi"}, id="a-container-requests"),
        pytest.param({"limits": {"cpu": "1"}}, {"cpu": "1", "memory": "1Gi"}, id="a-container-limits"),
    ],
)
async def test_limits_of_a_whole_pod(
    container: dict[str, Any], requests: dict[str, str], api: KubeApi, ns: str
) -> None:
    limits = {"cpu": "2", "memory": "1Gi"}
    body = a_pod("a", containers=[a_container(**container)], resources={"limits": limits})
    made = await api.create(POD, body, ns)
    assert made["spec"]["resources"] == {"limits": limits, "requests": requests}


@pytest.mark.parametrize(
    ("resource", "given", "canonical"),
    [
        pytest.param("cpu", "1000m", "1", id="thousandths"),
        pytest.param("cpu", 0.5, "500m", id="a-number"),
        pytest.param("cpu", "0.1", "100m", id="a-fraction"),
        pytest.param("memory", "1024Mi", "1Gi", id="larger-binary-unit"),
        pytest.param("memory", "0.5Gi", "512Mi", id="smaller-binary-unit"),
        pytest.param("memory", "1500M", "1500M", id="decimal-unit-stays"),
        pytest.param("memory", 1048576, "1048576", id="plain-bytes-stay"),
    ],
)
async def test_quantities_are_written_in_one_way(
    api: KubeApi, ns: str, resource: str, given: str | float, canonical: str
) -> None:
    container = a_container() | {"resources": {"requests": {resource: given}}}
    made = await api.create(POD, a_pod("a", containers=[container]), ns)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {resource: canonical}


FULL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param([a_container()], "BestEffort", id="nothing-asked"),
        pytest.param([a_container(requests={"cpu": "1"})], "Burstable", id="some-asked"),
        pytest.param([a_container(requests=FULL, limits=FULL)], "Guaranteed", id="all-asked-and-limited"),
        pytest.param([a_container(limits=FULL)], "Guaranteed", id="limits-alone"),
        pytest.param([a_container(limits=FULL), a_container("b")], "Burstable", id="one-container-without"),
        pytest.param([a_container(limits={"nvidia.com/gpu": "1"})], "BestEffort", id="gpus-do-not-count"),
    ],
)
async def test_quality_of_service(api: KubeApi, ns: str, containers: list[JsonObject], expected: str) -> None:
    assert (await api.create(POD, a_pod("a", containers=containers), ns))["status"]["qosClass"] == expected


async def test_gated_pod_says_that_it_waits(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a", schedulingGates=[GATE]), ns)
    assert made["status"]["phase"] == "Pending"
    assert condition(made, "PodScheduled") == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


async def test_gate_can_be_opened(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a", schedulingGates=[GATE, {"name": "ullage.dev/more"}]), ns)
    half = await api.patch(POD, "a", MergePatch({"spec": {"schedulingGates": [GATE]}}), ns)
    assert half["spec"]["schedulingGates"] == [GATE]
    opened = await api.patch(POD, "a", MergePatch({"spec": {"schedulingGates": None}}), ns)
    assert "schedulingGates" not in opened["spec"]
    assert opened["metadata"]["generation"] == 3


async def test_gated_pod_can_be_narrowed(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a", schedulingGates=[GATE], nodeSelector={"zone": "z1"}), ns)
    narrowed = await api.patch(POD, "a", MergePatch({"spec": {"nodeSelector": {"gpu": "yes"}}}), ns)
    assert narrowed["spec"]["nodeSelector"] == {"zone": "z1", "gpu": "yes"}


async def test_pod_may_be_born_on_a_node(api: KubeApi, ns: str, node: str) -> None:
    made = await api.create(POD, a_pod("a", nodeName=node), ns)
    assert made["spec"]["nodeName"] == node
    assert made["status"]["phase"] == "Pending"


async def test_negative_grace_counts_as_one_second(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a", terminationGracePeriodSeconds=-1), ns)
    assert made["spec"]["terminationGracePeriodSeconds"] == 1


async def test_port_is_tcp_unless_said(api: KubeApi, ns: str) -> None:
    container = a_container() | {"ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]}
    made = await api.create(POD, a_pod("a", containers=[container]), ns)
    assert [port["protocol"] for port in made["spec"]["containers"][0]["ports"]] == ["TCP", "UDP"]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        pytest.param("example.com/a:1", "IfNotPresent", id="tagged"),
        pytest.param("example.com/a:latest", "Always", id="latest"),
        pytest.param("example.com/a", "Always", id="untagged"),
        pytest.param("example.com:5000/a", "Always", id="untagged-with-a-port"),
    ],
)
async def test_pull_policy_follows_the_tag(api: KubeApi, ns: str, image: str, policy: str) -> None:
    made = await api.create(POD, a_pod("a", containers=[{"name": "c", "image": image}]), ns)
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_struct_and_json_tell_the_same_pod(api: KubeApi, ns: str) -> None:
    whole = await api.create(POD, a_pod("a", labels={"app": "x"}, gpus=4, requests={"cpu": "2"}), ns)
    read = await api.get(PODS, "a", ns)
    assert read.metadata.labels == {"app": "x"}
    assert read.metadata.uid == whole["metadata"]["uid"]
    assert read.spec.containers[0].resources.requests == {"cpu": "2", "nvidia.com/gpu": "4"}
    assert read.spec.scheduler_name == "default-scheduler"
    assert read.status.phase == "Pending"


async def test_init_containers_are_filled_in_too(api: KubeApi, ns: str) -> None:
    sidecar = a_container("side", limits={"nvidia.com/gpu": "1"}) | {"restartPolicy": "Always"}
    made = await api.create(POD, a_pod("a", initContainers=[sidecar]), ns)
    (init,) = made["spec"]["initContainers"]
    assert init["resources"]["requests"] == {"nvidia.com/gpu": "1"}
    assert (init["restartPolicy"], init["terminationMessagePolicy"]) == ("Always", "File")
