"""The status subresource: status and spec are written apart."""

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import BUDGET, DEPLOYMENT, JOB, NODE, POD
from tests.contract.steps import condition, version
from ullage.errors import Conflict, NotFound
from ullage.kube.client.api import JsonPatch, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.testing.builders import a_budget, a_job, a_node, a_pod, a_workload

RUNNING = {"phase": "Running"}


async def test_status_of_a_pod_is_written_through_its_subresource(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    patched = await api.patch(POD, "a", MergePatch({"status": RUNNING}), ns, subresource="status")
    assert patched["status"]["phase"] == "Running"
    assert patched["metadata"]["generation"] == made["metadata"]["generation"]
    assert await api.get(POD, "a", ns) == patched


async def test_status_is_not_written_through_the_object(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    assert await api.patch(POD, "a", MergePatch({"status": RUNNING}), ns) == made
    assert await api.replace(POD, made | {"status": RUNNING}) == made


async def test_spec_is_not_written_through_the_status(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    both = MergePatch({"spec": {"nodeName": "n1"}, "status": RUNNING})
    patched = await api.patch(POD, "a", both, ns, subresource="status")
    assert patched["spec"] == made["spec"]
    assert patched["status"]["phase"] == "Running"


async def test_labels_of_a_pod_are_written_through_the_status_too(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    body = {"metadata": {"labels": {"a": "b"}}, "status": RUNNING}
    patched = await api.patch(POD, "a", MergePatch(body), ns, subresource="status")
    assert patched["metadata"]["labels"] == {"a": "b"}


async def test_status_can_be_replaced(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    running = made | {"status": made["status"] | {"phase": "Running", "message": "up"}}
    written = await api.replace(POD, running, subresource="status")
    assert (written["status"]["phase"], written["status"]["message"]) == ("Running", "up")
    with refused(Conflict, reason="Conflict", says="the object has been modified"):
        await api.replace(POD, made, subresource="status")


async def test_condition_can_be_tested_and_set_by_a_json_patch(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit"}
    operations: list[JsonObject] = [
        {"op": "test", "path": "/status/phase", "value": "Pending"},
        {"op": "add", "path": "/status/conditions", "value": [refusal]},
    ]
    patched = await api.patch(POD, "a", JsonPatch(operations), ns, subresource="status")
    assert condition(patched, "PodScheduled") == refusal


async def test_status_written_again_is_no_write(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    first = await api.patch(POD, "a", MergePatch({"status": RUNNING}), ns, subresource="status")
    again = await api.patch(POD, "a", MergePatch({"status": RUNNING}), ns, subresource="status")
    assert version(again) == version(first)


async def test_status_of_what_is_not_there_is_not_found(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason="NotFound", says='pods "missing" not found'):
        await api.patch(POD, "missing", MergePatch({"status": RUNNING}), ns, subresource="status")


async def test_new_budget_has_an_empty_status(api: KubeApi, ns: str) -> None:
    body = a_budget("a", {"app": "x"}, minAvailable=1) | {"status": {"disruptionsAllowed": 5}}
    made = await api.create(BUDGET, body, ns)
    nothing = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}
    assert made["status"] == nothing


async def test_new_deployment_has_no_status(api: KubeApi, ns: str) -> None:
    made = await api.create(DEPLOYMENT, a_workload("a") | {"status": {"replicas": 5}}, ns)
    assert made["status"] == {}
    counted = MergePatch({"status": {"replicas": 2, "observedGeneration": 1}, "spec": {"replicas": 9}})
    patched = await api.patch(DEPLOYMENT, "a", counted, ns, subresource="status")
    assert patched["status"] == {"replicas": 2, "observedGeneration": 1}
    assert (patched["spec"]["replicas"], patched["metadata"]["generation"]) == (1, 1)


async def test_new_job_has_no_status(api: KubeApi, ns: str) -> None:
    assert (await api.create(JOB, a_job("a") | {"status": {"active": 5}}, ns))["status"] == {}


@pytest.mark.parametrize("subresource", ["", "status"], ids=["through-the-node", "through-its-status"])
async def test_status_of_a_node(api: KubeApi, ns: str, subresource: str) -> None:
    made = await api.create(NODE, a_node(f"{ns}-a", gpus=8))
    fewer = MergePatch({"status": {"allocatable": {"nvidia.com/gpu": "7"}}})
    patched = await api.patch(NODE, f"{ns}-a", fewer, subresource=subresource)
    left = "7" if subresource else "8"
    assert patched["status"]["allocatable"]["nvidia.com/gpu"] == left
    assert patched["status"]["capacity"] == made["status"]["capacity"]
