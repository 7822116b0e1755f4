"""Hands on a pool: they look again before they delete, and say what they found."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.contract.worlds import World
from tests.decide.provisioning.pools import a_provisioner
from ullage.act.leases import LeaseClient, LeaseHolder, LeaseRequest
from ullage.act.pools import PoolActuator
from ullage.clock import WallClock
from ullage.cloud.api import NoCapacity, OutcomeUnknown, RequestRejected, Throttled
from ullage.cloud.simulated import SimulatedCloud
from ullage.control.draining.removal_facts import IncomingPods
from ullage.errors import NotFound
from ullage.kube.client.api import DELETE_NOW, KubeApi, MergePatch
from ullage.kube.client.resources import NODES, PODS
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import ScaleUp, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.outcomes import LaunchFailed, NodesLaunched, PoolActionDone, PoolActionFailed, PoolFailure
from ullage.model.provisioner import DELETION_TAINT, CloudFailure
from ullage.model.units import Instant
from ullage.testing.builders import a_node, a_pod, a_taint

POOL = a_provisioner()


@pytest.fixture
def cloud() -> SimulatedCloud:
    return SimulatedCloud(WallClock())


@pytest.fixture
def hands(world: World, cloud: SimulatedCloud) -> PoolActuator:
    return PoolActuator(world.api, lambda _: cloud)


@pytest.fixture
async def node(world: World) -> AsyncIterator[str]:
    """A node that is to go."""
    name = f"{world.namespace}-node"
    await world.api.create(NODES, a_node(name, gpus=1, taints=[a_taint(DELETION_TAINT, "5")]))
    yield name
    try:
        await world.api.delete(NODES, name)
    except NotFound:
        return


def gone(node: str) -> TerminateInstance:
    return TerminateInstance(node=node, instance="i-1", why="empty")


async def taints(api: KubeApi, node: str) -> list[tuple[str, str]]:
    return [(taint.key, taint.value) for taint in (await api.get(NODES, node)).spec.taints]


async def test_an_empty_doomed_node_is_deleted_with_its_machine(
    world: World, hands: PoolActuator, cloud: SimulatedCloud, node: str
) -> None:
    action = ScaleUp(provisioner="pool", count=1, serial=0, token="t", why="")
    bought = await hands.perform(POOL, action)
    assert isinstance(bought, NodesLaunched)
    deprovision = TerminateInstance(node=node, instance=bought.instances[0].id, why="")
    assert await hands.perform(POOL, deprovision) == PoolActionDone(deprovision)
    assert await cloud.list([]) == []
    with pytest.raises(NotFound):
        await world.api.get(NODES, node)
    assert await hands.perform(POOL, deprovision) == PoolActionDone(deprovision), "and again"


@pytest.mark.parametrize(
    ("pod", "stays"),
    [
        pytest.param({}, True, id="a-pod-of-its-own"),
        pytest.param({"owner": "ReplicaSet"}, True, id="a-replica"),
        pytest.param({"owner": "DaemonSet"}, False, id="a-daemon"),
        pytest.param({"phase": "Succeeded"}, False, id="one-that-is-over"),
    ],
)
async def test_a_pod_that_came_in_between_keeps_its_node(
    world: World, hands: PoolActuator, node: str, pod: dict[str, Any], stays: bool
) -> None:
    body = a_pod("p", nodeName=node)
    if "owner" in pod:
        owner = {"apiVersion": "apps/v1", "kind": pod["owner"], "name": "o", "uid": "u", "controller": True}
        body["metadata"]["ownerReferences"] = [owner]
    await world.api.create(PODS, body, world.namespace)
    if "phase" in pod:
        status = MergePatch({"status": {"phase": pod["phase"]}})
        await world.api.patch(PODS, "p", status, world.namespace, subresource="status")
    outcome = await hands.perform(POOL, gone(node))
    if stays:
        assert outcome == PoolActionFailed(gone(node), PoolFailure.OCCUPIED, f"{world.namespace}/p is on it")
        await world.api.get(NODES, node)
    else:
        assert outcome == PoolActionDone(gone(node))


async def test_a_node_that_was_spared_meanwhile_stays(world: World, hands: PoolActuator, node: str) -> None:
    assert await hands.perform(POOL, Untaint(node=node, why="")) == PoolActionDone(Untaint(node=node, why=""))
    assert await taints(world.api, node) == []
    outcome = await hands.perform(POOL, gone(node))
    assert isinstance(outcome, PoolActionFailed)
    assert outcome.setback is PoolFailure.NODE_CHANGED
    await world.api.get(NODES, node)


@pytest.mark.parametrize("whose", ["gpu.scheduling", "cluster-autoscaler.kubernetes.io"])
async def test_a_protected_node_is_neither_tainted_nor_deleted(
    world: World, hands: PoolActuator, node: str, whose: str
) -> None:
    patch = MergePatch({"metadata": {"annotations": {f"{whose}/scale-down-disabled": "true"}}})
    await world.api.patch(NODES, node, patch)
    for action in (gone(node), TaintForDeletion(node=node, delete_after=Instant(9.0), why="")):
        outcome = await hands.perform(POOL, action)
        assert isinstance(outcome, PoolActionFailed)
        assert outcome.setback is PoolFailure.PROTECTED


async def test_a_taint_is_put_once_and_others_are_kept(world: World, hands: PoolActuator, node: str) -> None:
    await hands.perform(POOL, Untaint(node=node, why=""))
    await world.api.patch(NODES, node, MergePatch({"spec": {"taints": [a_taint("team", "a")]}}))
    for moment in (100.2, 999.0):
        await hands.perform(POOL, TaintForDeletion(node=node, delete_after=Instant(moment), why=""))
    assert await taints(world.api, node) == [("team", "a"), (DELETION_TAINT, "101")]
    await hands.perform(POOL, Untaint(node=node, why=""))
    assert await taints(world.api, node) == [("team", "a")]


async def test_what_cannot_be_deleted_is_said(hands: PoolActuator, cloud: SimulatedCloud, node: str) -> None:
    nobody = TerminateInstance(node=node, instance="", why="")
    assert await hands.perform(POOL, nobody) == PoolActionFailed(
        nobody, PoolFailure.NO_INSTANCE, "no machine is known for it"
    )
    cloud.faults.fail("delete", OutcomeUnknown("no answer"), times=2)
    assert await hands.perform(POOL, gone(node)) == PoolActionFailed(gone(node), PoolFailure.CLOUD_FAILED, "no answer")


async def test_an_instance_whose_deletion_got_no_answer_is_deleted_again_at_once_so_that_its_node_may_go(
    hands: PoolActuator, cloud: SimulatedCloud, node: str
) -> None:
    cloud.faults.lose_answer("delete")
    assert await hands.perform(POOL, gone(node)) == PoolActionDone(gone(node))
    assert cloud.machine_ids() == []


@pytest.mark.parametrize(
    ("ready", "tainted", "goes"),
    [
        pytest.param("Unknown", True, True, id="silent"),
        pytest.param("True", True, False, id="ready-again"),
        pytest.param("Unknown", False, False, id="spared-meanwhile"),
    ],
)
async def test_a_node_whose_instance_is_gone_is_deleted_alone_if_it_still_looks_so(
    world: World, hands: PoolActuator, cloud: SimulatedCloud, node: str, ready: str, tainted: bool, goes: bool
) -> None:
    cloud.faults.fail("delete", OutcomeUnknown("no answer"), times=9)
    condition = {"type": "Ready", "status": ready, "reason": "Test", "message": "", "lastTransitionTime": None}
    status = MergePatch({"status": {"conditions": [condition]}})
    await world.api.patch(NODES, node, status, subresource="status")
    if not tainted:
        await hands.perform(POOL, Untaint(node=node, why=""))
    alone = TerminateInstance(node=node, instance="", why="", gone=True)
    outcome = await hands.perform(POOL, alone)
    if goes:
        assert outcome == PoolActionDone(alone)
        with pytest.raises(NotFound):
            await world.api.get(NODES, node)
        again = await hands.perform(POOL, alone)
        assert isinstance(again, PoolActionFailed), (
            "a watch that lags makes no new deletion of it, and no next plan at once"
        )
        assert again.setback is PoolFailure.NODE_CHANGED
    else:
        assert isinstance(outcome, PoolActionFailed)
        assert outcome.setback is PoolFailure.NODE_CHANGED
        await world.api.get(NODES, node)


async def test_a_node_whose_instance_is_gone_and_that_a_finalizer_keeps_is_not_deleted_again_and_again(
    world: World, hands: PoolActuator, node: str
) -> None:
    silent = {"type": "Ready", "status": "Unknown", "reason": "Test", "message": "", "lastTransitionTime": None}
    await world.api.patch(NODES, node, MergePatch({"status": {"conditions": [silent]}}), subresource="status")
    await world.api.patch(NODES, node, MergePatch({"metadata": {"finalizers": ["example.com/keeps"]}}))
    await world.api.delete(NODES, node)
    outcome = await hands.perform(POOL, TerminateInstance(node=node, instance="", why="", gone=True))
    assert isinstance(outcome, PoolActionFailed)
    assert outcome.setback is PoolFailure.NODE_CHANGED
    await world.api.patch(NODES, node, MergePatch({"metadata": {"finalizers": None}}))


async def test_a_node_that_is_gone_is_no_error(hands: PoolActuator) -> None:
    for action in (
        TaintForDeletion(node="nowhere", delete_after=Instant(9.0), why=""),
        Untaint(node="nowhere", why=""),
    ):
        outcome = await hands.perform(POOL, action)
        assert isinstance(outcome, PoolActionFailed)
        assert outcome.setback is PoolFailure.NODE_CHANGED


async def test_purchases_say_what_became_of_them(hands: PoolActuator, cloud: SimulatedCloud) -> None:
    action = ScaleUp(provisioner="pool", count=3, serial=0, token="t", why="")
    cloud.faults.fail("create", NoCapacity("none left"))
    assert await hands.perform(POOL, action) == LaunchFailed(action, CloudFailure.CAPACITY, "none left")
    cloud.faults.lose_answer("create")
    lost = await hands.perform(POOL, action)
    assert isinstance(lost, LaunchFailed)
    assert lost.failure is None
    again = await hands.perform(POOL, action)
    assert isinstance(again, NodesLaunched)
    assert len(again.instances) == cloud.made == 3


async def test_a_node_is_adopted_with_the_labels_of_its_pool(world: World, hands: PoolActuator, node: str) -> None:
    await hands.adopt(POOL, node, "zone-a")
    labels = (await world.api.get(NODES, node)).metadata.labels
    assert labels["gpu.scheduling/provisioner"] == "pool"
    assert labels["topology.kubernetes.io/zone"] == "zone-a"
    await hands.adopt(POOL, "nowhere", "")


class CallsCounted(SimulatedCloud):
    """Remembers which instances were asked for in each call."""

    def __init__(self) -> None:
        super().__init__(WallClock())
        self.calls: list[list[str]] = []
        self.refuses = ""

    async def delete(self, ids: Sequence[str]) -> None:
        self.calls.append(list(ids))
        if self.refuses in ids:
            raise RequestRejected(f"{self.refuses} is protected from termination")
        await super().delete(ids)


def many(count: int) -> list[TerminateInstance]:
    return [TerminateInstance(node="", instance=f"i-{place}", why="late", lost=True) for place in range(count)]


async def test_many_machines_are_deleted_in_one_call(world: World) -> None:
    cloud = CallsCounted()
    outcomes = await PoolActuator(world.api, lambda _: cloud).deprovision(POOL, many(5))
    assert outcomes == [PoolActionDone(action) for action in many(5)]
    assert cloud.calls == [["i-0", "i-1", "i-2", "i-3", "i-4"]]


async def test_one_that_is_refused_does_not_keep_the_others(world: World) -> None:
    cloud = CallsCounted()
    cloud.refuses = "i-1"
    outcomes = await PoolActuator(world.api, lambda _: cloud).deprovision(POOL, many(3))
    assert [type(one) for one in outcomes] == [PoolActionDone, PoolActionFailed, PoolActionDone]


async def test_how_long_a_cloud_wants_to_be_left_alone_is_said(hands: PoolActuator, cloud: SimulatedCloud) -> None:
    cloud.faults.fail("delete", Throttled("slow down", retry_after=40.0))
    for outcome in await hands.deprovision(POOL, many(2)):
        assert isinstance(outcome, PoolActionFailed)
        assert (outcome.setback, outcome.retry_after) == (PoolFailure.CLOUD_FAILED, 40.0)


async def test_a_pod_that_holds_a_gpu_and_is_not_bound_yet_keeps_its_node(
    world: World, cloud: SimulatedCloud, node: str
) -> None:
    """Its scheduler has the Lease, and binds next. No watch need have told of the pod."""
    space = world.namespace
    incoming = IncomingPods(world.api, space, lambda _: {}, lambda _: [0, 1])
    hands = PoolActuator(world.api, lambda _: cloud, incoming.first)
    pod = await world.api.create(PODS, a_pod("late"), space)
    book = LeaseClient(world.api, space, WallClock())
    await book.reserve(LeaseHolder(ObjectKey(space, "late"), pod.metadata.uid), LeaseRequest(node, (1,)))
    outcome = await hands.perform(POOL, gone(node))
    assert outcome == PoolActionFailed(
        gone(node), PoolFailure.OCCUPIED, f"{space}/late holds a GPU of it and is about to be bound"
    )
    await world.api.get(NODES, node)
    await world.api.delete(PODS, "late", space, how=DELETE_NOW)
    assert await hands.perform(POOL, gone(node)) == PoolActionDone(gone(node)), "what a pod left behind keeps nothing"
