"""Binding: a node, annotations and labels land on the pod in one write, or nothing does."""

import asyncio

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import NODE, POD
from tests.contract.steps import condition, read_watch, uid, version
from ullage.errors import Conflict, NotFound, ServerFailure
from ullage.kube.client.api import Binding, KubeApi, MergePatch, WatchEventType
from ullage.kube.client.resources import PODS
from ullage.testing.builders import a_node, a_pod, with_meta


async def test_pod_is_on_its_node(api: KubeApi, ns: str, node: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    await api.bind("a", ns, Binding(node))
    bound = await api.get(POD, "a", ns)
    assert bound["spec"]["nodeName"] == node
    assert condition(bound, "PodScheduled") == {"type": "PodScheduled", "status": "True"}
    assert bound["status"]["phase"] == "Pending"
    assert int(version(bound)) > int(version(made))


async def test_binding_is_no_change_of_what_was_asked_for(api: KubeApi, ns: str, node: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    await api.bind("a", ns, Binding(node))
    bound = await api.get(POD, "a", ns)
    assert bound["metadata"]["generation"] == made["metadata"]["generation"]


async def test_annotations_and_labels_are_merged_into_the_pod(api: KubeApi, ns: str, node: str) -> None:
    await api.create(POD, a_pod("a", labels={"app": "x"}, annotations={"keep": "1", "change": "old"}), ns)
    binding = Binding(node, annotations={"change": "new", "gpu.scheduling/allocated": "n1:0,1"}, labels={"gpu": "yes"})
    await api.bind("a", ns, binding)
    meta = (await api.get(POD, "a", ns))["metadata"]
    assert meta["annotations"] == {"keep": "1", "change": "new", "gpu.scheduling/allocated": "n1:0,1"}
    assert meta["labels"] == {"app": "x", "gpu": "yes"}


async def test_binding_is_one_change(api: KubeApi, ns: str, node: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    await api.bind("a", ns, Binding(node, annotations={"allocated": "n1:0"}))
    (event,) = await read_watch(api, POD, ns, version(made), count=1)
    assert event.object is not None
    assert event.change is WatchEventType.MODIFIED
    assert event.object["spec"]["nodeName"] == node
    assert event.object["metadata"]["annotations"] == {"allocated": "n1:0"}
    assert event.resource_version == version(await api.get(POD, "a", ns))


async def test_zone_and_region_of_the_node_are_copied(api: KubeApi, ns: str) -> None:
    place = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"}
    await api.create(NODE, a_node(f"{ns}-n", labels=place | {"other": "x"}))
    await api.create(POD, a_pod("a", labels={"app": "x"}), ns)
    await api.bind("a", ns, Binding(f"{ns}-n"))
    assert (await api.get(POD, "a", ns))["metadata"]["labels"] == place | {"app": "x"}


async def test_node_need_not_exist(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    await api.bind("a", ns, Binding(f"{ns}-not-there"))
    assert (await api.get(PODS, "a", ns)).spec.node_name == f"{ns}-not-there"


async def test_node_must_have_a_name(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    with refused(ServerFailure, reason="", says="target.name: Required value"):
        await api.bind("a", ns, Binding(""))


@pytest.mark.parametrize("suffix", ["", "-2"], ids=["the-same-node", "another-node"])
async def test_bound_pod_is_not_bound_again(api: KubeApi, ns: str, node: str, suffix: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    await api.bind("a", ns, Binding(node))
    bound = await api.get(POD, "a", ns)
    says = f'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "{node}"'
    with refused(Conflict, reason="Conflict", says=says):
        await api.bind("a", ns, Binding(node + suffix, annotations={"late": "1"}))
    assert await api.get(POD, "a", ns) == bound


async def test_pod_created_on_a_node_is_not_bound(api: KubeApi, ns: str, node: str) -> None:
    await api.create(POD, a_pod("a", nodeName=node), ns)
    with refused(Conflict, reason="Conflict", says="already assigned to node"):
        await api.bind("a", ns, Binding(node))


async def test_another_uid_is_not_bound(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    says = f"Precondition failed: UID in precondition: another, UID in object meta: {uid(made)}"
    with refused(Conflict, reason="Conflict", says=says):
        await api.bind("a", ns, Binding("n1", uid="another", annotations={"late": "1"}))
    assert await api.get(POD, "a", ns) == made


async def test_changed_pod_is_not_bound(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    changed = await api.patch(POD, "a", MergePatch({"metadata": {"labels": {"x": "y"}}}), ns)
    says = f"ResourceVersion in precondition: {version(made)}, ResourceVersion in object meta: {version(changed)}"
    with refused(Conflict, reason="Conflict", says=says):
        await api.bind("a", ns, Binding("n1", resource_version=version(made)))
    assert await api.get(POD, "a", ns) == changed


async def test_pod_that_is_still_the_one_is_bound(api: KubeApi, ns: str, node: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    await api.bind("a", ns, Binding(node, uid=uid(made), resource_version=version(made)))
    assert (await api.get(PODS, "a", ns)).spec.node_name == node


async def test_missing_pod_is_not_found(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason="NotFound", says='pods "missing" not found'):
        await api.bind("missing", ns, Binding("n1"))


async def test_gated_pod_is_not_bound(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a", schedulingGates=[{"name": "ullage.dev/wait"}]), ns)
    says = 'Operation cannot be fulfilled on pods/binding "a": pod a has non-empty .spec.schedulingGates'
    with refused(Conflict, reason="Conflict", says=says):
        await api.bind("a", ns, Binding("n1"))


async def test_pod_that_is_going_is_not_bound(api: KubeApi, ns: str) -> None:
    await api.create(POD, with_meta(a_pod("a"), finalizers=["ullage.dev/hold"]), ns)
    await api.delete(POD, "a", ns)
    says = 'Operation cannot be fulfilled on pods/binding "a": pod a is being deleted, cannot be assigned to a host'
    with refused(Conflict, reason="Conflict", says=says):
        await api.bind("a", ns, Binding("n1"))


async def test_nomination_ends_with_the_binding(api: KubeApi, ns: str, node: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    nominated = {"status": {"nominatedNodeName": "n2"}}
    patched = await api.patch(POD, "a", MergePatch(nominated), ns, subresource="status")
    assert patched["status"]["nominatedNodeName"] == "n2"
    await api.bind("a", ns, Binding(node))
    assert (await api.get(PODS, "a", ns)).status.nominated_node_name == ""


async def test_refused_condition_turns_true(api: KubeApi, ns: str, node: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"}
    await api.patch(POD, "a", MergePatch({"status": {"conditions": [refusal]}}), ns, subresource="status")
    await api.bind("a", ns, Binding(node))
    assert condition(await api.get(POD, "a", ns), "PodScheduled") == {"type": "PodScheduled", "status": "True"}


async def test_of_two_schedulers_exactly_one_wins(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    nodes = [f"{ns}-{i}" for i in range(4)]
    await asyncio.gather(*(api.create(NODE, a_node(one)) for one in nodes))
    bindings = [Binding(one, annotations={"by": one}) for one in nodes]
    outcomes = await asyncio.gather(*(api.bind("a", ns, one) for one in bindings), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict"] * 3 + ["NoneType"]
    bound = await api.get(POD, "a", ns)
    assert bound["metadata"]["annotations"] == {"by": bound["spec"]["nodeName"]}
