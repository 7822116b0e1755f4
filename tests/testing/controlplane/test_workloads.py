"""kube-controller-manager, KWOK and Karpenter on top: workloads make pods, pods run, jobs end, nodes appear."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.fixtures import StartControlPlane
from ullage.testing.controlplane.launcher import wait_until

pytestmark = pytest.mark.real

WITHIN_SECONDS = 30.0
CONTAINERS = [{"name": "main", "image": "registry.example/pause"}]


class Cluster:
    """A namespace of the test's own, and short ways to write and read in it."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.create("/api/v1/namespaces", {"metadata": {"name": namespace}})

    def create(self, path: str, body: dict[str, Any]) -> None:
        status, answer = self.plane.probe.request("POST", self.plane.server + path, body)
        assert status == 201, answer

    def delete(self, path: str) -> None:
        status, answer = self.plane.probe.request("DELETE", self.plane.server + path)
        assert status in (200, 202), answer

    def pods(self) -> list[dict[str, Any]]:
        listed = self.plane.probe.get(f"{self.plane.server}/api/v1/namespaces/{self.namespace}/pods")
        return list(listed["items"])

    def phases(self) -> list[str]:
        return sorted(pod["status"]["phase"] for pod in self.pods())

    def add_node(self, name: str) -> None:
        annotations = {"kwok.x-k8s.io/node": "fake"}
        capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
        node = {
            "metadata": {"name": name, "annotations": annotations, "labels": {"node": name}},
            "status": {"capacity": capacity, "allocatable": capacity},
        }
        self.create("/api/v1/nodes", node)

    def node(self, name: str) -> dict[str, Any]:
        node: dict[str, Any] = self.plane.probe.get(f"{self.plane.server}/api/v1/nodes/{name}")
        return node


def eventually(holds: Callable[[], bool], what: str) -> None:
    assert wait_until(holds, WITHIN_SECONDS), f"not within {WITHIN_SECONDS:.0f} s: {what}"


def conditions(thing: dict[str, Any]) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in thing["status"].get("conditions", [])}


def template(node: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "x"}, "annotations": annotations},
        "spec": {"nodeName": node, "containers": CONTAINERS, "restartPolicy": "Never"},
    }


def test_a_node_becomes_ready_keeps_its_gpus_and_holds_a_lease(workload_control_plane: ControlPlane) -> None:
    cluster = Cluster(workload_control_plane, "node-life")
    cluster.add_node("life-0")
    eventually(lambda: conditions(cluster.node("life-0")).get("Ready") == "True", "the node is Ready")
    assert cluster.node("life-0")["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    lease = f"{cluster.plane.server}/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/life-0"
    eventually(lambda: cluster.plane.probe.is_ready(lease), "the node has a lease")


def test_a_deployments_pods_run_and_a_deleted_one_is_replaced(workload_control_plane: ControlPlane) -> None:
    cluster = Cluster(workload_control_plane, "deployment")
    cluster.add_node("deployment-0")
    pod = template("deployment-0")
    pod["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": pod}
    cluster.create("/apis/apps/v1/namespaces/deployment/deployments", {"metadata": {"name": "web"}, "spec": spec})
    eventually(lambda: cluster.phases() == ["Running"] * 3, "three pods run")
    assert all(conditions(pod)["Ready"] == "True" for pod in cluster.pods())

    victim = cluster.pods()[0]["metadata"]["name"]
    cluster.delete(f"/api/v1/namespaces/deployment/pods/{victim}")
    eventually(
        lambda: (
            cluster.phases() == ["Running"] * 3 and victim not in [pod["metadata"]["name"] for pod in cluster.pods()]
        ),
        "the deleted pod is gone and another runs",
    )


def test_a_bound_pod_keeps_what_the_binding_wrote(workload_control_plane: ControlPlane) -> None:
    cluster = Cluster(workload_control_plane, "binding")
    cluster.add_node("binding-0")
    pods = "/api/v1/namespaces/binding/pods"
    cluster.create(pods, {"metadata": {"name": "p"}, "spec": {"containers": CONTAINERS}})
    time.sleep(0.5)
    assert cluster.phases() == ["Pending"]
    target = {"apiVersion": "v1", "kind": "Node", "name": "binding-0"}
    cluster.create(f"{pods}/p/binding", {"metadata": {"name": "p", "annotations": {"gpus": "0,1"}}, "target": target})
    eventually(lambda: cluster.phases() == ["Running"], "the bound pod runs")
    (pod,) = cluster.pods()
    assert pod["metadata"]["annotations"]["gpus"] == "0,1"
    assert conditions(pod)["PodScheduled"] == "True"
    assert pod["status"]["podIP"]


@pytest.mark.parametrize(
    ("annotation", "phase", "condition"),
    [("runs-for", "Succeeded", "Complete"), ("fails-after", "Failed", "Failed")],
    ids=["a job completes", "a job fails"],
)
def test_a_job_ends_as_its_annotation_says(
    annotation: str, phase: str, condition: str, workload_control_plane: ControlPlane
) -> None:
    cluster = Cluster(workload_control_plane, f"job-{annotation}")
    cluster.add_node(f"{annotation}-0")
    pod = template(f"{annotation}-0", **{f"testing.ullage.dev/{annotation}": "1s"})
    jobs = f"/apis/batch/v1/namespaces/job-{annotation}/jobs"
    cluster.create(jobs, {"metadata": {"name": "j"}, "spec": {"backoffLimit": 0, "template": pod}})
    eventually(lambda: cluster.phases() == [phase], f"its pod ends {phase}")
    job = f"{cluster.plane.server}{jobs}/j"
    eventually(lambda: conditions(cluster.plane.probe.get(job)).get(condition) == "True", f"the job is {condition}")


def test_a_pod_without_an_annotation_runs_on(workload_control_plane: ControlPlane) -> None:
    cluster = Cluster(workload_control_plane, "runs-on")
    cluster.add_node("runs-on-0")
    cluster.create("/api/v1/namespaces/runs-on/pods", {"metadata": {"name": "p"}, **spec_of(template("runs-on-0"))})
    eventually(lambda: cluster.phases() == ["Running"], "the pod runs")
    time.sleep(2.0)
    assert cluster.phases() == ["Running"]


def test_a_pod_may_take_its_time_to_stop(workload_control_plane: ControlPlane) -> None:
    cluster = Cluster(workload_control_plane, "slow-stop")
    cluster.add_node("slow-stop-0")
    pods = "/api/v1/namespaces/slow-stop/pods"
    annotations = {"testing.ullage.dev/stops-after": "2s"}
    cluster.create(pods, {"metadata": {"name": "p", "annotations": annotations}, **spec_of(template("slow-stop-0"))})
    eventually(lambda: cluster.phases() == ["Running"], "the pod runs")
    began = time.monotonic()
    cluster.delete(f"{pods}/p")
    (pod,) = cluster.pods()
    assert "deletionTimestamp" in pod["metadata"]
    eventually(lambda: cluster.pods() == [], "the pod is gone")
    assert time.monotonic() - began >= 1.5


def test_a_node_that_is_not_kwoks_is_left_alone(workload_control_plane: ControlPlane) -> None:
    cluster = Cluster(workload_control_plane, "not-kwok")
    cluster.create("/api/v1/nodes", {"metadata": {"name": "real-0"}})
    cluster.create("/api/v1/namespaces/not-kwok/pods", {"metadata": {"name": "p"}, **spec_of(template("real-0"))})
    cluster.add_node("after-real-0")
    eventually(lambda: conditions(cluster.node("after-real-0")).get("Ready") == "True", "the later node is Ready")
    assert conditions(cluster.node("real-0")) == {}
    assert cluster.phases() == ["Pending"]


def test_with_node_lifecycle_a_silent_node_is_tainted(start_control_plane: StartControlPlane) -> None:
    impatient = {GoProgram.CONTROLLER_MANAGER: ["--node-startup-grace-period=3s", "--node-monitor-period=1s"]}
    plane = start_control_plane(
        ControlPlaneSpec(
            components=[GoProgram.CONTROLLER_MANAGER, GoProgram.KWOK], node_lifecycle=True, extra_flags=impatient
        )
    )
    cluster = Cluster(plane, "lifecycle")
    cluster.create("/api/v1/nodes", {"metadata": {"name": "silent"}})
    cluster.add_node("alive")

    def taints(name: str) -> list[str]:
        return sorted({taint["key"] for taint in cluster.node(name)["spec"].get("taints", [])})

    eventually(lambda: taints("silent") == ["node.kubernetes.io/unreachable"], "the silent node is unreachable")
    assert taints("alive") == []
    assert conditions(cluster.node("alive"))["Ready"] == "True"


def test_karpenter_makes_a_node_for_a_pending_pod(start_control_plane: StartControlPlane) -> None:
    everything = [GoProgram.CONTROLLER_MANAGER, GoProgram.SCHEDULER, GoProgram.KWOK, GoProgram.KARPENTER]
    cluster = Cluster(start_control_plane(ControlPlaneSpec(components=everything)), "karpenter")
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    kind = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass"}
    cluster.create("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", {**kind, "metadata": {"name": "default"}})
    requirements = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]
    pool = {"nodeClassRef": reference, "requirements": requirements}
    cluster.create(
        "/apis/karpenter.sh/v1/nodepools",
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {"template": {"spec": pool}},
        },
    )
    cluster.create("/api/v1/namespaces/karpenter/pods", {"metadata": {"name": "p"}, "spec": {"containers": CONTAINERS}})
    eventually(lambda: cluster.phases() == ["Running"], "the pod runs on a node Karpenter made")
    node = cluster.node(cluster.pods()[0]["spec"]["nodeName"])
    assert node["metadata"]["labels"]["karpenter.sh/nodepool"] == "default"
    assert cluster.plane.is_running(GoProgram.KARPENTER)


def spec_of(pod_template: dict[str, Any]) -> dict[str, Any]:
    return {"spec": pod_template["spec"]}
