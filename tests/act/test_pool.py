"""Hands on a pool: they look again before they delete, and say what they found."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.worlds import World
from tests.decide.pool.pools import a_provisioner
from ullage.act.pool import PoolHands
from ullage.clock import WallClock
from ullage.cloud.api import NoCapacity, OutcomeUnknown
from ullage.cloud.simulated import SimulatedCloud
from ullage.errors import NotFound
from ullage.kube.api import KubeApi, MergePatch
from ullage.kube.resources import NODES, PODS
from ullage.model.pool_action import Deprovision, Doom, Provision, Spare
from ullage.model.pool_outcome import Bought, NotBought, PoolDone, PoolNotDone, PoolSetback
from ullage.model.provisioner import DELETION_TAINT, Failure
from ullage.testing.builders import a_node, a_pod, a_taint

POOL = a_provisioner()


@pytest.fixture
def cloud() -> SimulatedCloud:
    return SimulatedCloud(WallClock())


@pytest.fixture
def hands(world: World, cloud: SimulatedCloud) -> PoolHands:
    return PoolHands(world.api, lambda _: cloud)


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


def gone(node: str) -> Deprovision:
    return Deprovision(node=node, instance="i-1", why="empty")


async def taints(api: KubeApi, node: str) -> list[tuple[str, str]]:
    return [(taint.key, taint.value) for taint in (await api.get(NODES, node)).spec.taints]


async def test_an_empty_doomed_node_is_deleted_with_its_machine(
    world: World, hands: PoolHands, cloud: SimulatedCloud, node: str
) -> None:
    action = Provision(provisioner="pool", count=1, serial=0, token="t", why="")
    bought = await hands.perform(POOL, action)
    assert isinstance(bought, Bought)
    deprovision = Deprovision(node=node, instance=bought.instances[0].id, why="")
    assert await hands.perform(POOL, deprovision) == PoolDone(deprovision)
    assert await cloud.list([]) == []
    with pytest.raises(NotFound):
        await world.api.get(NODES, node)
    assert await hands.perform(POOL, deprovision) == PoolDone(deprovision), "and again"


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
    world: World, hands: PoolHands, node: str, pod: dict[str, Any], stays: bool
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
        assert outcome == PoolNotDone(gone(node), PoolSetback.OCCUPIED, f"{world.namespace}/p is on it")
        await world.api.get(NODES, node)
    else:
        assert outcome == PoolDone(gone(node))


async def test_a_node_that_was_spared_meanwhile_stays(world: World, hands: PoolHands, node: str) -> None:
    assert await hands.perform(POOL, Spare(node=node, why="")) == PoolDone(Spare(node=node, why=""))
    assert await taints(world.api, node) == []
    outcome = await hands.perform(POOL, gone(node))
    assert isinstance(outcome, PoolNotDone)
    assert outcome.setback is PoolSetback.NODE_CHANGED
    await world.api.get(NODES, node)


async def test_a_protected_node_is_neither_tainted_nor_deleted(world: World, hands: PoolHands, node: str) -> None:
    patch = MergePatch({"metadata": {"annotations": {"gpu.scheduling/scale-down-disabled": "true"}}})
    await world.api.patch(NODES, node, patch)
    for action in (gone(node), Doom(node=node, delete_after=9.0, why="")):
        outcome = await hands.perform(POOL, action)
        assert isinstance(outcome, PoolNotDone)
        assert outcome.setback is PoolSetback.PROTECTED


async def test_a_taint_is_put_once_and_others_are_kept(world: World, hands: PoolHands, node: str) -> None:
    await hands.perform(POOL, Spare(node=node, why=""))
    await world.api.patch(NODES, node, MergePatch({"spec": {"taints": [a_taint("team", "a")]}}))
    for moment in (100.2, 999.0):
        await hands.perform(POOL, Doom(node=node, delete_after=moment, why=""))
    assert await taints(world.api, node) == [("team", "a"), (DELETION_TAINT, "101")]
    await hands.perform(POOL, Spare(node=node, why=""))
    assert await taints(world.api, node) == [("team", "a")]


async def test_what_cannot_be_deleted_is_said(hands: PoolHands, cloud: SimulatedCloud, node: str) -> None:
    nobody = Deprovision(node=node, instance="", why="")
    assert await hands.perform(POOL, nobody) == PoolNotDone(
        nobody, PoolSetback.NO_INSTANCE, "no machine is known for it"
    )
    cloud.faults.fail("delete", OutcomeUnknown("no answer"))
    assert await hands.perform(POOL, gone(node)) == PoolNotDone(gone(node), PoolSetback.CLOUD_FAILED, "no answer")


async def test_a_node_that_is_gone_is_no_error(hands: PoolHands) -> None:
    for action in (Doom(node="nowhere", delete_after=9.0, why=""), Spare(node="nowhere", why="")):
        outcome = await hands.perform(POOL, action)
        assert isinstance(outcome, PoolNotDone)
        assert outcome.setback is PoolSetback.NODE_CHANGED


async def test_purchases_say_what_became_of_them(hands: PoolHands, cloud: SimulatedCloud) -> None:
    action = Provision(provisioner="pool", count=3, serial=0, token="t", why="")
    cloud.faults.fail("create", NoCapacity("none left"))
    assert await hands.perform(POOL, action) == NotBought(action, Failure.CAPACITY, "none left")
    cloud.faults.lose_answer("create")
    lost = await hands.perform(POOL, action)
    assert isinstance(lost, NotBought)
    assert lost.failure is None
    again = await hands.perform(POOL, action)
    assert isinstance(again, Bought)
    assert len(again.instances) == cloud.made == 3


async def test_a_node_is_adopted_with_the_labels_of_its_pool(world: World, hands: PoolHands, node: str) -> None:
    await hands.adopt(POOL, node, "zone-a")
    labels = (await world.api.get(NODES, node)).metadata.labels
    assert labels["gpu.scheduling/provisioner"] == "pool"
    assert labels["topology.kubernetes.io/zone"] == "zone-a"
    await hands.adopt(POOL, "nowhere", "")
