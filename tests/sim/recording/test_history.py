"""What of a cluster's history is a cause, and is recorded; and what is a result, which a replay makes by itself."""

from typing import Any

import pytest

from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import (
    DEPLOYMENTS,
    GPU_CLAIMS,
    GPU_NODE_STATUSES,
    JOBS,
    NODE_PROVISIONERS,
    NODES,
    PODS,
)
from ullage.model.units import Instant
from ullage.sim.recording.history import HistoryRecorder
from ullage.sim.recording.objects import merge_patch
from ullage.state.dump import RecordedStep, StepVerb

SCHEDULER = "gpu-scheduler"
Change = tuple[Resource[Any], float, JsonObject | None]
"""Kind, time, and the object; None: the last one of this kind is gone."""


def pod(phase: str = "Pending", **more: Any) -> JsonObject:
    meta = {"name": "a", "namespace": "default", "uid": more.pop("uid", "u1"), "resourceVersion": "7"}
    status = {"phase": phase, "conditions": more.pop("conditions", [])}
    spec = {"schedulerName": more.pop("scheduler", SCHEDULER), "containers": [{"name": "m", "command": ["x"]}]}
    if node := more.pop("node", ""):
        spec["nodeName"] = node
    return {"metadata": meta | more, "spec": spec, "status": status}


def named(name: str, **body: Any) -> JsonObject:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, **body}


def owned(kind: str) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": "owner", "uid": "o", "controller": True}]}


def report(health: str = "Healthy", at: str = "2026-01-01T00:00:00Z", name: str = "n") -> JsonObject:
    device = {"id": 0, "uuid": "GPU-0", "model": "H100", "memory": "80Gi", "health": health}
    return named(name, spec={"nodeName": name}, status={"observedAt": at, "devices": [device]})


def recorded(*changes: Change, first: tuple[JsonObject, ...] = ()) -> HistoryRecorder:
    history = HistoryRecorder(first, (SCHEDULER,), Instant(1_000_000.0))
    last: dict[str, JsonObject] = {}
    for resource, at, manifest in changes:
        if manifest is None:
            history.remove(resource, last[resource.kind], at)
        else:
            history.observe(resource, manifest, at)
            last[resource.kind] = manifest
    return history


def told(history: HistoryRecorder) -> list[str]:
    return [_line(one) for one in history.recording().steps]


def _line(step: RecordedStep) -> str:
    return f"{step.at:g} {step.verb.value} {step.object['kind']} {step.object['metadata']['name']}"


EVICTED = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
LEAVING: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:09Z", "deletionGracePeriodSeconds": 30}
POOL_NODE = named("bought") | {"metadata": {"name": "bought", "labels": {"gpu.scheduling/provisioner": "p"}}}

TABLE = [
    pytest.param([(PODS, 1, pod())], ["1 create Pod a"], id="a-pod-comes"),
    pytest.param(
        [(PODS, 1, pod()), (PODS, 2, pod("Running", node="n")), (PODS, 5, pod("Running", node="n", **LEAVING))],
        ["1 create Pod a", "5 delete Pod a"],
        id="a-user-deletes-it",
    ),
    pytest.param([(PODS, 1, pod()), (PODS, 5, None)], ["1 create Pod a", "5 delete Pod a"], id="deleted-by-force"),
    pytest.param(
        [(PODS, 1, pod()), (PODS, 3, pod("Succeeded", node="n")), (PODS, 5, None)],
        ["1 create Pod a"],
        id="cleared-up-when-it-was-over",
    ),
    pytest.param(
        [(PODS, 1, pod()), (PODS, 4, pod(conditions=EVICTED, **LEAVING)), (PODS, 5, None)],
        ["1 create Pod a"],
        id="preempted-by-us",
    ),
    pytest.param(
        [(PODS, 1, pod()), (PODS, 5, None), (PODS, 6, pod(uid="u2"))],
        ["1 create Pod a", "5 delete Pod a", "6 create Pod a"],
        id="another-of-the-same-name",
    ),
    pytest.param(
        [(PODS, 1, pod(scheduler="other")), (PODS, 4, pod(scheduler="other", node="n"))],
        ["4 create Pod a"],
        id="anothers-pod-comes-when-it-is-bound",
    ),
    pytest.param([(PODS, 1, pod(**owned("ReplicaSet")))], [], id="a-pod-of-a-deployment"),
    pytest.param([(GPU_CLAIMS, 1, named("c") | {"metadata": {"name": "c", **owned("Pod")}})], [], id="a-claims-copy"),
    pytest.param(
        [(DEPLOYMENTS, 1, named("d", spec={"replicas": 1})), (DEPLOYMENTS, 2, named("d", spec={"replicas": 3}))],
        ["1 create Deployment d", "2 change Deployment d"],
        id="a-deployment-is-scaled",
    ),
    pytest.param(
        [(DEPLOYMENTS, 1, named("d", spec={})), (DEPLOYMENTS, 2, named("d", spec={}, status={"replicas": 3}))],
        ["1 create Deployment d"],
        id="a-status-is-no-step",
    ),
    pytest.param(
        [(NODE_PROVISIONERS, 1, named("p", spec={"maxSize": 3})), (NODE_PROVISIONERS, 9, None)],
        ["1 create NodeProvisioner p", "9 delete NodeProvisioner p"],
        id="a-pool-comes-and-goes",
    ),
    pytest.param([(NODES, 1, POOL_NODE), (GPU_NODE_STATUSES, 2, report(name="bought"))], [], id="a-node-is-bought"),
    pytest.param([(GPU_NODE_STATUSES, 1, report(name="bought")), (NODES, 2, POOL_NODE)], [], id="report-before-node"),
    pytest.param(
        [(NODES, 1, named("n", spec={})), (NODES, 4, named("n", spec={"unschedulable": True})), (NODES, 6, None)],
        ["1 create Node n", "4 change Node n", "6 delete Node n"],
        id="a-node-is-cordoned-and-lost",
    ),
    pytest.param(
        [
            (NODES, 1, named("n", spec={})),
            (NODES, 2, named("n", spec={"taints": [{"key": "gpu.scheduling/draining", "effect": "NoSchedule"}]})),
        ],
        ["1 create Node n"],
        id="our-own-taint",
    ),
    pytest.param(
        [(GPU_NODE_STATUSES, 1, report()), (GPU_NODE_STATUSES, 2, report(at="2026-01-01T00:00:30Z"))],
        ["1 create GpuNodeStatus n"],
        id="a-heartbeat",
    ),
    pytest.param(
        [(GPU_NODE_STATUSES, 1, report()), (GPU_NODE_STATUSES, 2, report("Unhealthy"))],
        ["1 create GpuNodeStatus n", "2 change GpuNodeStatus n"],
        id="a-gpu-dies",
    ),
]


@pytest.mark.parametrize(("changes", "steps"), TABLE)
def test_what_users_and_machines_did_is_a_step(changes: list[Change], steps: list[str]) -> None:
    assert told(recorded(*changes)) == steps


def test_a_pod_is_written_as_it_was_made_with_the_times_of_its_life() -> None:
    history = recorded(
        (PODS, 1, pod()),
        (PODS, 2, pod("Pending", node="n")),
        (PODS, 3.5, pod("Running", node="n", annotations={"gpu.scheduling/allocated": "n:0", "team": "red"})),
        (PODS, 10.5, pod("Failed", node="n")),
    )
    (step,) = history.recording().steps
    assert step.verb is StepVerb.CREATE
    assert step.object["metadata"] == {
        "name": "a",
        "namespace": "default",
        "annotations": {
            "sim.ullage/start-seconds": "1.500",
            "sim.ullage/duration-seconds": "7.000",
            "sim.ullage/exit-codes": "1",
        },
    }
    assert step.object["spec"] == {"schedulerName": SCHEDULER, "containers": [{"name": "m"}]}
    assert "status" not in step.object


def test_a_pod_that_was_there_before_gets_its_whole_run_time() -> None:
    """It began 20 s before the recording, and ended 5 s after that began."""
    running = pod("Running", node="n")
    running["status"]["startTime"] = "1970-01-12T13:46:20Z"
    first = {"apiVersion": "v1", "kind": "Pod", **running}
    history = recorded((PODS, 0.1, running), (PODS, 5, pod("Succeeded", node="n")), first=(first,))
    found = history.recording()
    assert found.steps == ()
    assert found.objects[0]["metadata"]["annotations"] == {"sim.ullage/duration-seconds": "25.000"}


def test_a_pod_that_was_over_before_is_no_step() -> None:
    over = pod("Succeeded", node="n")
    assert told(recorded((PODS, 0.1, over), first=({"apiVersion": "v1", "kind": "Pod", **over},))) == []


def test_a_job_is_written_with_how_long_its_pods_ran() -> None:
    job = named("owner", spec={"template": {"spec": {"containers": [{"name": "m"}]}}})
    job["metadata"]["namespace"] = "default"
    mine = owned("Job")
    history = recorded(
        (JOBS, 1, job),
        (PODS, 2, pod("Running", node="n", **mine)),
        (PODS, 12, pod("Succeeded", node="n", **mine)),
    )
    (step,) = history.recording().steps
    assert step.object["spec"]["template"]["metadata"]["annotations"] == {"sim.ullage/duration-seconds": "10.000"}


def test_a_change_says_what_is_gone() -> None:
    assert merge_patch({"a": 1, "b": {"c": 1, "d": [1]}}, {"b": {"c": 1, "d": [2]}, "e": None}) == {
        "a": None,
        "b": {"d": [2]},
        "e": None,
    }


def test_nodes_of_pools_that_a_user_deletes_are_counted() -> None:
    history = recorded((NODES, 1, POOL_NODE), (NODES, 3, None))
    assert dict(history.recording().left_out) == {"nodes of pools that were deleted by hand": 1}
