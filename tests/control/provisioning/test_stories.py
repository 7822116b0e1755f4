"""The provisioner in virtual time: nodes come on demand, and go without regret."""

import asyncio

import pytest

from tests.control.provisioning.stage import Stage, play
from tests.control.scheduling.stage import NS
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import EVENTS, PODS

pytestmark = pytest.mark.story

SIZES = [pytest.param(12, id="12-nodes"), pytest.param(120, id="120-nodes", marks=pytest.mark.full)]
DELAY = 300
"""Seconds, as pools of a stage have it."""


def names(count: int, prefix: str = "p") -> list[str]:
    return [f"{prefix}-{number:03}" for number in range(count)]


def test_pods_get_nodes_and_nodes_go_when_they_leave() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool()
        await stage.pods(names(5))
        assert await stage.served() < 60
        assert len(await stage.nodes()) == len(stage.cloud.made) == 5
        status = (await stage.status()).status
        assert (status.current_size, status.target_size) == (5, 5)
        await stage.leave(*names(5))
        await stage.has(0)
        assert len(stage.cloud.made) == 5
        assert await told(stage, "NodeProvisioner") >= {"NodesLaunched", "NodeTaintedForDeletion", "NodeRemoved"}
        assert await told(stage, "Node") >= {"NodeTaintedForDeletion", "NodeRemoved"}

    play(story)


async def told(stage: Stage, kind: str) -> set[str]:
    """Reasons of Events about objects of a kind."""
    events = (await stage.api.list(EVENTS)).items
    return {one["reason"] for one in events if one["regarding"]["kind"] == kind}


async def shrinking(stage: Stage, nodes: int) -> float:
    """Two thirds of the nodes are in use, at 80 %: a sixth of them is tainted. Returns when that was done."""
    await stage.pool(maxSize=nodes)
    await stage.pods(names(nodes))
    await stage.served()
    assert len(await stage.nodes()) == nodes
    await stage.leave(*names(nodes)[nodes * 2 // 3 :])
    began = await stage.until(lambda: has_tainted(stage, nodes // 6))
    await asyncio.sleep(3)
    status = (await stage.status()).status
    assert (status.target_size, len(status.tainted_nodes), status.utilization) == (nodes * 5 // 6, nodes // 6, 66)
    return began


async def has_tainted(stage: Stage, count: int) -> bool:
    return await stage.tainted() == count


@pytest.mark.parametrize("nodes", SIZES)
def test_scenario_a(nodes: int) -> None:
    """120 nodes, 80 in use, 80 %: 100 stay; 20 are tainted, and go after the delay."""

    async def story(stage: Stage) -> None:
        began = await shrinking(stage, nodes)
        assert DELAY <= await stage.has(nodes * 5 // 6) - began <= DELAY + 5
        await asyncio.sleep(2 * DELAY)
        assert (len(await stage.nodes()), await stage.tainted()) == (nodes * 5 // 6, 0)
        assert len(stage.cloud.made) == nodes

    play(story)


@pytest.mark.parametrize("nodes", SIZES)
def test_scenario_b(nodes: int) -> None:
    """At the delay 60 are in use: 75 are wanted, and the 20 go. The next loop taints 25 more; they go a delay later."""

    async def story(stage: Stage) -> None:
        began = await shrinking(stage, nodes)
        await asyncio.sleep(began + DELAY - stage.now)
        await stage.leave(*names(nodes)[nodes // 2 : nodes * 2 // 3])
        assert await stage.has(nodes * 5 // 6) - began <= DELAY + 5
        wanted = (nodes // 2) * 5 // 4
        again = await stage.until(lambda: has_tainted(stage, nodes * 5 // 6 - wanted))
        assert again - began <= DELAY + 10
        await asyncio.sleep(3)
        assert (await stage.status()).status.target_size == wanted
        assert DELAY <= await stage.has(wanted) - again <= DELAY + 5
        await asyncio.sleep(2 * DELAY)
        assert (len(await stage.nodes()), await stage.tainted(), len(stage.cloud.made)) == (wanted, 0, nodes)

    play(story)


@pytest.mark.parametrize("nodes", SIZES)
def test_scenario_c(nodes: int) -> None:
    """Before the delay 88 are in use: 110 are wanted, 10 taints go; at the delay 10 nodes do."""

    async def story(stage: Stage) -> None:
        began = await shrinking(stage, nodes)
        await asyncio.sleep(200)
        back = nodes // 15 or 1
        await stage.pods(names(back, "back"))
        wanted = (nodes * 2 // 3 + back) * 5 // 4
        assert await stage.until(lambda: has_tainted(stage, nodes - wanted)) - began < 210
        await asyncio.sleep(3)
        assert (await stage.status()).status.target_size == wanted
        assert DELAY <= await stage.has(wanted) - began <= DELAY + 5
        assert len(stage.cloud.made) == nodes
        assert "NodeUntainted" in await told(stage, "Node")

    play(story)


def test_pods_of_other_schedulers_get_nodes_once_those_found_them_unschedulable() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool()
        await stage.pods(names(2), schedulerName="another")
        await asyncio.sleep(60)
        assert not stage.cloud.made, "nobody has said that there is no room for them"
        for name, reason in zip(names(2), ("Unschedulable", "WaitingForCapacity"), strict=True):
            condition = {"type": "PodScheduled", "status": "False", "reason": reason}
            said = MergePatch({"status": {"conditions": [condition]}})
            await stage.api.patch(PODS, name, said, NS, subresource="status")
        await stage.has(1)
        await asyncio.sleep(120)
        assert len(stage.cloud.made) == 1, "for the other one a node is on its way already"

    play(story)
