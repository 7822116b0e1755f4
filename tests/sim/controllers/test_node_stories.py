"""Nodes that fall silent and come back, in virtual time."""

import asyncio

import pytest

from tests.sim.controllers.stage import Stage, bound_pod, elapsed, on_stage, until
from ullage.kube.client.resources import NODES
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.kubelet.timings import INSTANT
from ullage.testing.builders import a_node, a_pod

pytestmark = pytest.mark.story


async def ready_status(stage: Stage, node: str) -> str:
    found = await stage.api.get(NODES, node)
    return next(each.status for each in found.status.conditions if each.type == "Ready")


def test_a_node_that_falls_silent_is_tainted_loses_its_pods_and_may_come_back() -> None:
    async def story(stage: Stage) -> None:
        for name in ("node-a", "node-b"):
            await stage.api.create(NODES, a_node(name))
        async with stage.actors(ControllerManagerSettings(INSTANT, heartbeats=True)) as actors:
            bears = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
            patient = a_pod("a", tolerations=[bears | {"tolerationSeconds": 60}])
            await bound_pod(stage, "a", "node-a", patient)
            await asyncio.sleep(30)
            actors.kubelets.fail("node-a")
            failed = elapsed()

            async def is_unknown() -> bool:
                return await ready_status(stage, "node-a") == "Unknown"

            async def is_told_to_go() -> bool:
                return "deletionTimestamp" in (await stage.pods())[0]["metadata"]

            unknown = await until(is_unknown)
            assert 40 <= unknown - failed <= 51
            await asyncio.sleep(1)
            taints = (await stage.api.get(NODES, "node-a")).spec.taints
            assert {(taint.key, taint.effect) for taint in taints} == {
                ("node.kubernetes.io/unreachable", "NoSchedule"),
                ("node.kubernetes.io/unreachable", "NoExecute"),
            }
            assert 60 <= await until(is_told_to_go) - unknown <= 63
            await asyncio.sleep(300)
            assert len(await stage.pods()) == 1, "nobody is there to stop it"
            actors.kubelets.recover("node-a")
            await asyncio.sleep(10)
            assert await stage.pods() == []
            assert await ready_status(stage, "node-a") == "True"
            assert (await stage.api.get(NODES, "node-a")).spec.taints == ()
            assert await ready_status(stage, "node-b") == "True"

    on_stage(story)


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async def story(stage: Stage) -> None:
        for name in ("node-a", "node-b"):
            await stage.api.create(NODES, a_node(name))
        async with stage.actors(ControllerManagerSettings(INSTANT, heartbeats=True)) as actors:
            await bound_pod(stage, "a", "node-a")

            async def is_ready() -> bool:
                conditions = (await stage.pods())[0]["status"].get("conditions", ())
                return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

            await until(is_ready)
            actors.kubelets.fail("node-a")
            await asyncio.sleep(70)
            assert not await is_ready()
            actors.kubelets.recover("node-a")
            await asyncio.sleep(10)
            assert await is_ready()
            await asyncio.sleep(600)
            assert await stage.phases() == ["Running"]

    on_stage(story)


def test_silent_nodes_are_emptied_one_by_one() -> None:
    async def story(stage: Stage) -> None:
        names = [f"node-{number}" for number in range(6)]
        for name in names:
            await stage.api.create(NODES, a_node(name))
        async with stage.actors(ControllerManagerSettings(INSTANT, heartbeats=True)) as actors:
            await asyncio.sleep(30)
            for name in names[:2]:
                actors.kubelets.fail(name)
            emptied: dict[str, float] = {}

            async def all_are_emptied() -> bool:
                for node in (await stage.api.list(NODES)).items:
                    if any(taint.effect == "NoExecute" for taint in node.spec.taints):
                        emptied.setdefault(node.metadata.name, elapsed())
                return len(emptied) == 2

            await until(all_are_emptied)
            first, second = sorted(emptied.values())
            assert 9 <= second - first <= 12

    on_stage(story)


def test_when_all_nodes_fall_silent_nobody_is_driven_out() -> None:
    async def story(stage: Stage) -> None:
        names = ["node-a", "node-b", "node-c"]
        for name in names:
            await stage.api.create(NODES, a_node(name))
        async with stage.actors(ControllerManagerSettings(INSTANT, heartbeats=True)) as actors:
            await bound_pod(stage, "a", "node-a")
            await asyncio.sleep(30)
            for name in names:
                actors.kubelets.fail(name)
            await asyncio.sleep(600)
            assert [await ready_status(stage, name) for name in names] == ["Unknown"] * 3
            effects = [taint.effect for node in (await stage.api.list(NODES)).items for taint in node.spec.taints]
            assert effects == ["NoSchedule"] * 3
            assert "deletionTimestamp" not in (await stage.pods())[0]["metadata"]

    on_stage(story)
