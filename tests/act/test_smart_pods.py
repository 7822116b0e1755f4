"""Intents of the Karpenter system on both API servers: each may be performed twice, and none hits another object."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.decide.karpenter.cluster import Cluster, claim_pod
from ullage.act.leases import LeaseClient
from ullage.act.smart_pods import SmartPodActuator
from ullage.clock import WallClock
from ullage.errors import NotFound
from ullage.kube.client.api import DELETE_NOW, Binding, KubeApi, MergePatch
from ullage.kube.client.resources import LEASES, NAMESPACES, NODES, PODS
from ullage.kube.read import read_pod
from ullage.kube.read.karpenter import read_handover_node, read_smart_pod
from ullage.kube.write.conditions import found
from ullage.model.allocation import lease_name
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import (
    AdmitWaitingPod,
    ClearHandover,
    CreateSmartPod,
    DeleteSmartPod,
    GpuLeaseRequest,
    RecordFailure,
    RecordSmartPodState,
    ReserveNode,
)
from ullage.model.karpenter import CAPACITY_CONDITION, HANDOVER, UNCLAIMED, Handover, HandoverNode, WaitingPod
from ullage.model.karpenter_failure import FailureReason, RecordedFailure
from ullage.model.lifecycles import SmartPodState
from ullage.model.outcomes import IntentDone, IntentFailed, IntentRejected, IntentStale
from ullage.model.shape_terms import Toleration
from ullage.model.units import Instant, Milli
from ullage.testing.builders import a_node, a_pod, a_taint


@pytest.fixture
def actuator(api: KubeApi, ns: str) -> SmartPodActuator:
    return SmartPodActuator(api, LeaseClient(api, ns, WallClock()), WallClock())


def creation(ns: str) -> CreateSmartPod:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    (create,) = [one for one in cluster.performed if isinstance(one, CreateSmartPod)]
    return replace(create, key=ObjectKey(ns, create.key.name), priority_class="")


async def waiting(api: KubeApi, ns: str, name: str = "w", **spec: Any) -> WaitingPod:
    made = await api.create(PODS, a_pod(name, schedulerName="gpu-scheduler", **spec), ns)
    return WaitingPod(ObjectKey(ns, name), made.metadata.uid)


async def bought(api: KubeApi, ns: str, *, value: str = UNCLAIMED, kept: bool = False) -> HandoverNode:
    """A node as Karpenter brings it."""
    body = a_node(f"{ns}-n", labels={"gpu.scheduling/request": "r1"}, gpus=2, taints=[a_taint(HANDOVER, value)])
    if kept:
        body["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    return read_handover_node(await api.create(NODES, body))


def reserving(node: HandoverNode, *pods: WaitingPod, devices: tuple[int, ...] = (0,)) -> ReserveNode:
    return ReserveNode(
        node=node.name,
        uid=node.uid,
        resource_version=node.resource_version,
        handover=Handover(request="r1", pods=pods, since=Instant(5.0), was_kept=node.kept),
        leases=tuple(GpuLeaseRequest(pod=one, devices=devices, milli=Milli(1000)) for one in pods),
        why="",
    )


async def test_a_smart_pod_is_created_once(api: KubeApi, ns: str, actuator: SmartPodActuator) -> None:
    create = creation(ns)
    assert await actuator.perform(create) == IntentDone(create)
    assert await actuator.perform(create) == IntentDone(create, written=False)
    there = read_smart_pod(await api.get(PODS, create.key.name, ns))
    assert (there.request, there.state) == (create.request, "Pending")


async def test_a_name_that_is_taken_by_another_pod_is_told(api: KubeApi, ns: str, actuator: SmartPodActuator) -> None:
    create = creation(ns)
    await api.create(PODS, a_pod(create.key.name), ns)
    assert isinstance(await actuator.perform(create), IntentRejected)


async def test_a_smart_pod_the_server_refuses_is_told(ns: str, actuator: SmartPodActuator) -> None:
    create = replace(creation(ns), labels=(("no label", "x y"),))
    assert isinstance(await actuator.perform(create), IntentRejected)


async def test_a_namespace_that_was_deleted_is_made_again(api: KubeApi, ns: str, actuator: SmartPodActuator) -> None:
    gone = f"{ns}-gone"
    create = creation(gone)
    assert isinstance(await actuator.perform(create), IntentStale)
    made = await api.get(NAMESPACES, gone)
    assert made.metadata.labels["tensor-fusion.ai/component"] == "smart-scheduler", "`ullage uninstall` knows it"
    await asyncio.sleep(0.5)  # kube-controller-manager gives it a service account
    again = await actuator.perform(create)
    assert isinstance(again, IntentDone), again


async def test_state_stands_on_the_pod(api: KubeApi, ns: str, actuator: SmartPodActuator) -> None:
    create = creation(ns)
    await actuator.perform(create)
    uid = (await api.get(PODS, create.key.name, ns)).metadata.uid
    record = RecordSmartPodState(
        key=create.key,
        uid=uid,
        state=SmartPodState.LAUNCHED,
        since=Instant(1893456000.25),
        attempts=2,
        node_claim="gpu-x",
        why="",
    )
    assert await actuator.perform(record) == IntentDone(record)
    there = read_smart_pod(await api.get(PODS, create.key.name, ns))
    assert (there.state, there.state_since, there.attempts, there.node_claim) == ("Launched", 1893456000.25, 2, "gpu-x")
    await actuator.perform(replace(record, node_claim=""))
    assert read_smart_pod(await api.get(PODS, create.key.name, ns)).node_claim == ""
    assert isinstance(await actuator.perform(replace(record, uid="another")), IntentStale)


async def test_only_this_very_smart_pod_is_deleted(api: KubeApi, ns: str, actuator: SmartPodActuator) -> None:
    create = creation(ns)
    await actuator.perform(create)
    uid = (await api.get(PODS, create.key.name, ns)).metadata.uid
    delete = DeleteSmartPod(key=create.key, uid="other", grace_seconds=0, end=SmartPodState.CANCELLED, why="")
    assert await actuator.perform(delete) == IntentDone(delete, written=False)
    assert (await api.get(PODS, create.key.name, ns)).metadata.uid == uid
    mine = replace(delete, uid=uid)
    assert await actuator.perform(mine) == IntentDone(mine)
    with pytest.raises(NotFound):
        await api.get(PODS, create.key.name, ns)
    assert await actuator.perform(mine) == IntentDone(mine, written=False)


async def test_a_smart_pod_that_does_not_go_is_told_with_its_finalizers_and_one_that_goes_is_not(
    api: KubeApi, ns: str, actuator: SmartPodActuator
) -> None:
    create = creation(ns)
    await actuator.perform(create)
    made = await api.get(PODS, create.key.name, ns)
    delete = DeleteSmartPod(
        key=create.key, uid=made.metadata.uid, grace_seconds=0, end=SmartPodState.CANCELLED, why="", again=True
    )
    keep = MergePatch({"metadata": {"finalizers": ["example.com/keep"]}})
    await api.patch(PODS, create.key.name, keep, ns)
    told = await actuator.perform(delete)
    assert isinstance(told, IntentFailed)
    assert "example.com/keep" in told.detail
    await api.patch(PODS, create.key.name, MergePatch({"metadata": {"finalizers": None}}), ns)
    await actuator.perform(create)
    there = await api.get(PODS, create.key.name, ns)
    assert isinstance(await actuator.perform(replace(delete, uid=there.metadata.uid)), IntentDone)


@pytest.mark.parametrize("kept", [False, True])
async def test_a_node_is_closed_leased_and_opened_again(
    api: KubeApi, ns: str, actuator: SmartPodActuator, kept: bool
) -> None:
    node, pod = await bought(api, ns, kept=kept), await waiting(api, ns)
    reserve = reserving(node, pod, devices=(0, 1))
    assert await actuator.perform(reserve) == IntentDone(reserve)
    assert await actuator.perform(reserve) == IntentDone(reserve), "again after a crash"
    closed = read_handover_node(await api.get(NODES, node.name))
    assert (closed.closed_for, closed.kept, closed.handover) == ("r1", True, reserve.handover)
    for device in (0, 1):
        assert (await api.get(LEASES, lease_name(node.name, device), ns)).spec.holder_identity == pod.uid
    clear = ClearHandover(
        node=node.name,
        uid=node.uid,
        resource_version="",
        drop_do_not_disrupt=not kept,
        end=SmartPodState.HANDED_OVER,
        why="",
    )
    assert await actuator.perform(clear) == IntentDone(clear)
    opened = read_handover_node(await api.get(NODES, node.name))
    assert (opened.closed_for, opened.kept, opened.handover) == (None, kept, None)
    await api.delete(NODES, node.name)


async def test_a_node_closed_for_another_is_left_alone(api: KubeApi, ns: str, actuator: SmartPodActuator) -> None:
    node, pod = await bought(api, ns, value="r2"), await waiting(api, ns)
    assert isinstance(await actuator.perform(reserving(node, pod)), IntentStale)
    assert read_handover_node(await api.get(NODES, node.name)).closed_for == "r2"
    with pytest.raises(NotFound):
        await api.get(LEASES, lease_name(node.name, 0), ns)
    await api.delete(NODES, node.name)


async def test_a_gpu_somebody_else_holds_is_not_taken(api: KubeApi, ns: str, actuator: SmartPodActuator) -> None:
    node, pod, rival = await bought(api, ns), await waiting(api, ns), await waiting(api, ns, "rival")
    assert isinstance(await actuator.perform(reserving(node, rival)), IntentDone)
    assert isinstance(await actuator.perform(reserving(node, pod)), IntentStale)
    assert (await api.get(LEASES, lease_name(node.name, 0), ns)).spec.holder_identity == rival.uid
    await api.delete(NODES, node.name)


@pytest.mark.parametrize("tolerations", [[], [{"key": "x", "operator": "Exists"}]])
async def test_a_waiting_pod_is_admitted_once(
    api: KubeApi, ns: str, actuator: SmartPodActuator, tolerations: list[dict[str, str]]
) -> None:
    pod = await waiting(api, ns, tolerations=tolerations)
    admit = AdmitWaitingPod(pod=pod, request="r1", node="n", why="")
    assert await actuator.perform(admit) == IntentDone(admit)
    assert await actuator.perform(admit) == IntentDone(admit, written=False)
    there = read_pod(await api.get(PODS, "w", ns))
    assert Toleration(key=HANDOVER, value="r1", effect="NoSchedule") in there.shape.tolerations


async def test_a_pod_that_is_bound_or_another_one_is_not_admitted(
    api: KubeApi, ns: str, actuator: SmartPodActuator
) -> None:
    node, pod = await bought(api, ns), await waiting(api, ns)
    admit = AdmitWaitingPod(pod=pod, request="r1", node=node.name, why="")
    await api.bind("w", ns, Binding(node.name))
    assert isinstance(await actuator.perform(admit), IntentStale)
    await api.delete(PODS, "w", ns, how=DELETE_NOW)
    assert isinstance(await actuator.perform(admit), IntentStale)
    await api.delete(NODES, node.name)


async def test_a_pod_that_was_bound_gets_no_condition_of_a_failure_and_loses_the_one_it_has(
    api: KubeApi, ns: str, actuator: SmartPodActuator
) -> None:
    node = await bought(api, ns)
    failure = RecordedFailure(
        reason=FailureReason.NO_OFFERING, message="none left", attempts=2, retry_at=Instant(7.5), fingerprint="f"
    )
    told, late = [RecordFailure(pod=await waiting(api, ns, name), failure=failure, why="") for name in ("told", "late")]
    await actuator.perform(told)
    for one in (told, late):
        await api.bind(one.pod.key.name, ns, Binding(node.name))
    await actuator.perform(replace(told, failure=None))
    await actuator.perform(late)
    for one in (told, late):
        there = await api.get(PODS, one.pod.key.name, ns)
        assert found(there.status.conditions, CAPACITY_CONDITION) is None, one.pod.key.name
        await api.delete(PODS, one.pod.key.name, ns, how=DELETE_NOW)
    await api.delete(NODES, node.name)


async def test_a_failure_stands_on_the_waiting_pod(api: KubeApi, ns: str, actuator: SmartPodActuator) -> None:
    pod = await waiting(api, ns)
    failure = RecordedFailure(
        reason=FailureReason.NO_OFFERING, message="none left", attempts=2, retry_at=Instant(7.5), fingerprint="f"
    )
    record = RecordFailure(pod=pod, failure=failure, why="")
    assert await actuator.perform(record) == IntentDone(record)
    assert "NoOffering" in read_pod(await api.get(PODS, "w", ns)).capacity_failure
    told = found((await api.get(PODS, "w", ns)).status.conditions, CAPACITY_CONDITION)
    assert told is not None
    assert (told.status, told.reason, told.message) == ("False", "NoOffering", "none left")
    cleared = replace(record, failure=None)
    assert await actuator.perform(cleared) == IntentDone(cleared)
    assert read_pod(await api.get(PODS, "w", ns)).capacity_failure == ""
    assert found((await api.get(PODS, "w", ns)).status.conditions, CAPACITY_CONDITION) is None
    body = MergePatch({"metadata": {"labels": {"still": "there"}}})
    await api.patch(PODS, "w", body, ns)
