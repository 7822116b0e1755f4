"""Agent and lease sweeper together: a GPU is nobody's until the last process of its dead pod is gone."""

import asyncio

import pytest

from tests.agent.node import NODE, Stage, play
from tests.control.leases.lease_gc import Scene
from ullage.decide.leases.release import ReleaseReason
from ullage.kube.client.api import DELETE_NOW
from ullage.kube.client.resources import LEASES, PODS
from ullage.model.allocation import lease_name
from ullage.sim.virtual_time import loop_clock

pytestmark = pytest.mark.story

NS = "default"


class HereScene(Scene):
    """The sweeper's scene, on the agent's node."""

    @property
    def node(self) -> str:
        return NODE


def test_a_force_deleted_pods_gpu_stays_its_own_until_its_process_is_gone() -> None:
    async def story(stage: Stage) -> None:
        scene = HereScene(stage.api, NS, loop_clock())
        async with stage.agent_running(), scene.swept():
            holder = await scene.running("train", 0, 1)
            stage.runs(0, 4711, holder.uid)
            await asyncio.sleep(5)
            await stage.api.delete(PODS, "train", NS, how=DELETE_NOW)
            await asyncio.sleep(300)
            assert await scene.held() == {0}, "GPU 1 is free, GPU 0 has a process"
            assert (await stage.gpu(0)).in_use_by == (holder.uid,)
            assert await stage.told() == [], "a process in quarantine is not astray"
            del stage.proc.alive[4711]
            stage.reader.runs(0)
            await asyncio.sleep(5)
            assert await scene.held() == set()
        assert {freed.why for freed in scene.freed} == {ReleaseReason.POD_GONE}

    play(story, leases=NS)


def test_a_process_that_outlives_its_lease_is_astray() -> None:
    async def story(stage: Stage) -> None:
        scene = HereScene(stage.api, NS, loop_clock())
        async with stage.agent_running():
            holder = await scene.running("train", 0)
            stage.runs(0, 4711, holder.uid)
            await asyncio.sleep(5)
            await stage.api.delete(PODS, "train", NS, how=DELETE_NOW)
            await asyncio.sleep(60)
            assert await stage.told() == []
            await stage.api.delete(LEASES, lease_name(NODE, 0), NS)
            await asyncio.sleep(60)
            assert [one[:2] for one in await stage.told()] == [(f"Node/{NODE}", "GpuUsedWithoutLease")]

    play(story, leases=NS)
