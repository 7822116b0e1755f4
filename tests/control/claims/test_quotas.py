"""The status of quotas in virtual time: what the pods of the namespace hold, and whether one waits because of it."""

import asyncio

import pytest

from tests.control.claims.stage import NS, Scene, World, kept, told
from ullage.kube.client.api import Binding, MergePatch
from ullage.kube.client.resources import GPU_QUOTAS, NODES, PODS
from ullage.kube.write.gpu import EXHAUSTED
from ullage.model.allocation import ALLOCATED
from ullage.model.refusal import SchedulingFailure
from ullage.testing.builders import a_node, a_pod

pytestmark = pytest.mark.story

OVER = SchedulingFailure(word="QuotaExceeded", message="0/1 nodes fit: 1 QuotaExceeded")


async def used(scene: Scene, name: str = "q") -> int | None:
    return (await scene.quota_status(name)).status.used.gpus


async def exhausted(scene: Scene, name: str = "q") -> tuple[str, str]:
    status = (await scene.quota_status(name)).status
    return next(((one.status, one.reason) for one in status.conditions if one.type == EXHAUSTED), ("", ""))


async def run_pod(scene: Scene, name: str, *gpus: int) -> None:
    await scene.api.create(PODS, a_pod(name, gpus=len(gpus)), NS)
    notes = {ALLOCATED: f"node-a:{','.join(map(str, gpus))}"}
    await scene.api.bind(name, NS, Binding("node-a", annotations=notes))


def test_a_quota_counts_what_is_held_claim_or_not() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.api.create(NODES, a_node("node-a", gpus=8))
        await scene.quota("q", gpus=8)
        async with kept(world.keepers_api, world.clock):
            await asyncio.sleep(2)
            assert await used(scene) == 0
            await run_pod(scene, "a", 0, 1)
            await run_pod(scene, "b", 2)
            await asyncio.sleep(2)
            assert await used(scene) == 3
            await scene.remove("a")
            await asyncio.sleep(2)
            assert await used(scene) == 1
        assert len([write for write in world.writes if write[0] == "PATCH"]) == 3

    told(story())


def test_a_quota_somebody_waits_for_is_exhausted_until_he_does_not() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.api.create(NODES, a_node("node-a", gpus=8))
        await scene.quota("q", gpus=2)
        await scene.quota("wide", gpus=100)
        await scene.claim("c", 4)
        async with kept(world.keepers_api, world.clock) as keeping:
            await scene.pod("p", "c")
            await asyncio.sleep(2)
            assert await exhausted(scene) == ("False", "WithinLimits")
            keeping.refuse("p", OVER)
            await asyncio.sleep(2)
            assert await exhausted(scene) == ("True", "QuotaExceeded")
            assert await exhausted(scene, "wide") == ("False", "WithinLimits")
            (condition,) = (await scene.quota_status("q")).status.conditions
            assert condition.message == "pod default/p is refused: 4 GPUs asked, 0 of 2 are held"
            assert await scene.said("c") == ("Pending", "QuotaExceeded", "")
            await scene.remove("p")
            await asyncio.sleep(2)
            assert await exhausted(scene) == ("False", "WithinLimits")

    told(story())


def test_limits_that_change_are_answered_with_their_generation() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.quota("q", gpus=2)
        async with kept(world.keepers_api, world.clock):
            await asyncio.sleep(2)
            await scene.api.patch(GPU_QUOTAS, "q", MergePatch({"spec": {"gpus": 4}}), NS)
            await asyncio.sleep(2)
            assert (await scene.quota_status("q")).status.observed_generation == 2

    told(story())


def test_a_bind_that_comes_to_nothing_is_not_counted_for_long() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.api.create(NODES, a_node("node-a", gpus=8))
        await scene.quota("q", gpus=8)
        await scene.api.create(PODS, a_pod("p", gpus=1), NS)
        async with kept(world.keepers_api, world.clock) as keeping:
            keeping.snapshot.assume(keeping.pod("p"), "node-a")
            await asyncio.sleep(2)
            assert await used(scene) == 1
            keeping.snapshot.forget(keeping.pod("p").key)
            await asyncio.sleep(6)
            assert await used(scene) == 0

    told(story())


def test_a_quota_that_says_so_already_is_not_written_at_the_start() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.quota("q", gpus=8)
        async with kept(world.keepers_api, world.clock):
            await asyncio.sleep(5)
        world.writes.clear()
        async with kept(world.keepers_api, world.clock):
            await asyncio.sleep(5)
        assert world.writes == []

    told(story())
