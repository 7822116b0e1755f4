"""What a pod asks of a node, as kube-scheduler counts it, and other facts read from objects."""

from typing import Any

import msgspec
import pytest

from ullage.errors import Unreadable
from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.pod import KubePod
from ullage.kube.objects.policy import KubePodDisruptionBudget
from ullage.kube.read import pod_requests, read_budget, read_node, read_pod
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Owner, Phase


def a_container(cpu: str, *, sidecar: bool = False, gpus: str = "0") -> dict[str, Any]:
    requests = {"cpu": cpu, "nvidia.com/gpu": gpus}
    container: dict[str, Any] = {"name": "c", "resources": {"requests": requests}}
    return container | ({"restartPolicy": "Always"} if sidecar else {})


def read(spec: dict[str, Any], **meta: Any) -> KubePod:
    return msgspec.convert({"metadata": {"name": "p", "namespace": "n", **meta}, "spec": spec}, KubePod)


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [a_container("1"), a_container("500m")]}, 1500, id="containers-add-up"),
        pytest.param(
            {"containers": [a_container("1")], "initContainers": [a_container("3"), a_container("2")]},
            3000,
            id="the-largest-init-container-decides-if-larger",
        ),
        pytest.param(
            {"containers": [a_container("1")], "initContainers": [a_container("200m", sidecar=True)]},
            1200,
            id="sidecars-run-beside-containers",
        ),
        pytest.param(
            {
                "containers": [a_container("1")],
                "initContainers": [a_container("1", sidecar=True), a_container("4"), a_container("1", sidecar=True)],
            },
            5000,
            id="an-init-container-runs-beside-earlier-sidecars",
        ),
        pytest.param(
            {"containers": [a_container("1")], "resources": {"requests": {"cpu": "4"}}},
            4000,
            id="pod-level-requests-replace-the-sum",
        ),
        pytest.param({"containers": [a_container("1")], "overhead": {"cpu": "250m"}}, 1250, id="overhead-comes-on-top"),
    ],
)
def test_cpu_asked_for(spec: dict[str, Any], cpu: int) -> None:
    assert pod_requests(read(spec).spec)["cpu"] == cpu


def test_requests_for_nothing_are_left_out() -> None:
    assert pod_requests(read({"containers": [a_container("0")]}).spec) == {}


def test_pod_level_requests_do_not_replace_gpus() -> None:
    spec = {
        "containers": [a_container("1", gpus="2")],
        "resources": {"requests": {"nvidia.com/gpu": "1"}},
    }
    assert pod_requests(read(spec).spec)["nvidia.com/gpu"] == 2000


def test_a_pods_facts() -> None:
    owner = {"kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}
    pod = read_pod(
        read(
            {"containers": [a_container("1")], "nodeName": "a", "priority": 7, "schedulingGates": [{"name": "g"}]},
            uid="1",
            ownerReferences=[{"kind": "X", "name": "x", "uid": "x"}, owner],
            deletionTimestamp="2026-01-01T00:00:00Z",
            creationTimestamp="1970-01-01T00:01:00Z",
        )
    )
    assert (pod.key, pod.node, pod.priority, pod.gated, pod.deleting) == (ObjectKey("n", "p"), "a", 7, True, True)
    assert (pod.created, pod.phase, pod.owner) == (60.0, Phase.PENDING, Owner("ReplicaSet", "rs", "u"))


@pytest.mark.parametrize(("policy", "preempts"), [("", True), ("PreemptLowerPriority", True), ("Never", False)])
def test_whether_others_are_evicted_for_a_pod(policy: str, preempts: bool) -> None:
    assert read_pod(read({"containers": [a_container("1")], "preemptionPolicy": policy})).preempts is preempts


def test_a_bad_quantity_names_the_pod_and_the_field() -> None:
    with pytest.raises(
        Unreadable, match=r"pod n/p: spec.containers\[0\].resources.requests.cpu: 'lots' is not a quantity"
    ):
        read_pod(read({"containers": [a_container("lots")]}))


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        pytest.param([], True, id="fake-nodes-without-conditions-count-as-ready"),
        pytest.param([{"type": "Ready", "status": "True"}], True, id="ready"),
        pytest.param([{"type": "Ready", "status": "Unknown"}], False, id="silent"),
        pytest.param([{"type": "DiskPressure", "status": "False"}], True, id="other-conditions-do-not-speak"),
    ],
)
def test_a_nodes_readiness(conditions: list[dict[str, str]], ready: bool) -> None:
    node = msgspec.convert({"metadata": {"name": "a"}, "status": {"conditions": conditions}}, KubeNode)
    assert read_node(node).ready is ready


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        pytest.param(None, False, id="no-selector-selects-nothing"),
        pytest.param({}, True, id="empty-selector-selects-all"),
        pytest.param({"matchLabels": {"app": "web"}}, True, id="labels"),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False, id="expressions"
        ),
    ],
)
def test_whom_a_budget_protects(selector: dict[str, Any] | None, selects: bool) -> None:
    budget = msgspec.convert({"metadata": {"name": "b"}, "spec": {"selector": selector}}, KubePodDisruptionBudget)
    assert read_budget(budget).selector.matches({"app": "web"}) is selects


@pytest.mark.parametrize(
    ("conditions", "node", "unplaced"),
    [
        pytest.param([("PodScheduled", "False", "Unschedulable")], "", "Unschedulable", id="refused"),
        pytest.param(
            [("Ready", "False", "x"), ("PodScheduled", "False", "WaitingForCapacity")],
            "",
            "WaitingForCapacity",
            id="among-others",
        ),
        pytest.param([("PodScheduled", "True", "")], "", "", id="placed"),
        pytest.param([("PodScheduled", "False", "Unschedulable")], "a", "", id="bound-whatever-it-said"),
        pytest.param([], "", "", id="nothing-said"),
    ],
)
def test_why_a_pod_has_no_node(conditions: list[tuple[str, str, str]], node: str, unplaced: str) -> None:
    written = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in conditions]
    raw = msgspec.convert(
        {"metadata": {"name": "p"}, "spec": {"nodeName": node}, "status": {"conditions": written}}, KubePod
    )
    assert read_pod(raw).unplaced == unplaced
