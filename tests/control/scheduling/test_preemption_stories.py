"""Preemption end to end in virtual time: who has to go goes, the room is kept, and the right GPUs come free."""

import asyncio
from typing import Any

import pytest

from tests.control.scheduling.fleet import submit, submit_gang
from tests.control.scheduling.stage import NS, Setting, Stage, play
from ullage.kube.client.resources import BUDGETS, PODS, PRIORITY_CLASSES
from ullage.sim.kubelet.timings import DurationRange
from ullage.testing.builders import a_budget, a_priority_class

pytestmark = pytest.mark.story

SLOWLY = DurationRange(8.0, 8.0)


async def classes(stage: Stage) -> None:
    for name, value in (("low", 10), ("high", 1000)):
        await stage.api.create(PRIORITY_CLASSES, a_priority_class(name, value))


async def submit_as(stage: Stage, rank: str, name: str, gpus: int, **claim: Any) -> None:
    grace = {"terminationGracePeriodSeconds": 30}
    await submit(stage.api, NS, name, gpus, pod={"priorityClassName": rank, **grace}, **claim)


async def gpus_of(stage: Stage) -> dict[str, tuple[int, ...]]:
    return {pod.key.name: pod.gpu_ids for pod in (await stage.read()).pods if pod.node}


async def is_bound(stage: Stage, pod: str) -> bool:
    return pod in await stage.bound()


def test_the_right_gpus_are_freed_and_kept_for_whom_they_were_freed() -> None:
    async def story(stage: Stage) -> None:
        await classes(stage)
        # Four pods of two fill both islands: two of one island have to go for four GPUs of one island.
        for number in range(4):
            await submit_as(stage, "low", f"low-{number}", 2, topology={"mode": "Required"})
        await stage.at_rest(15)
        await asyncio.sleep(5)  # until they run: what has not started ends at once
        before = await gpus_of(stage)
        await submit_as(stage, "high", "high", 4, topology={"mode": "Required"})
        await asyncio.sleep(3)
        assert (await stage.api.get(PODS, "high", NS)).status.nominated_node_name == "node-00"
        leaving = {pod.metadata.name for pod in (await stage.api.list(PODS)).items if pod.metadata.deletion_timestamp}
        assert len(leaving) == 2
        assert len({gpu // 4 for name in leaving for gpu in before[name]}) == 1, "both are of one island"
        await submit_as(stage, "low", "late", 2)
        await stage.until(lambda: is_bound(stage, "high"), 60)
        await stage.at_rest(60)
        now = await gpus_of(stage)
        assert set(now) == {"high"} | ({f"low-{number}" for number in range(4)} - leaving)
        assert sorted(now["high"]) == sorted(gpu for name in leaving for gpu in before[name])
        told = await stage.events(sorted(leaving)[0])
        assert "Preempted" in told

    play(Setting(nodes=1, stop=SLOWLY), story)


def test_nobody_of_the_same_rank_has_to_go() -> None:
    async def story(stage: Stage) -> None:
        await classes(stage)
        await submit_as(stage, "high", "first", 8)
        await stage.at_rest(15)
        await submit_as(stage, "high", "second", 8)
        await asyncio.sleep(30)
        assert set(await stage.bound()) == {"first"}
        await stage.at_rest(30)

    play(Setting(nodes=1), story)


def test_a_budget_chooses_the_victim() -> None:
    async def story(stage: Stage) -> None:
        await classes(stage)
        for number in range(2):
            await submit(
                stage.api,
                NS,
                f"low-{number}",
                8,
                pod={"priorityClassName": "low"},
                labels={"app": f"app-{number}"},
            )
        await stage.api.create(BUDGETS, a_budget("keep-0", {"app": "app-0"}, minAvailable=1), NS)
        await stage.at_rest(15)
        await asyncio.sleep(5)
        await submit_as(stage, "high", "high", 8)
        await stage.until(lambda: is_bound(stage, "high"), 60)
        await stage.at_rest(60)
        assert set(await stage.bound()) == {"low-0", "high"}

    play(Setting(nodes=2), story)


def test_room_is_made_for_a_whole_gang_or_for_nobody() -> None:
    async def story(stage: Stage) -> None:
        await classes(stage)
        for number in range(2):
            await submit_as(stage, "low", f"low-{number}", 8)
        await submit_as(stage, "high", "rock", 8)
        await stage.at_rest(15)
        high = {"priorityClassName": "high"}
        await submit_gang(stage.api, NS, "three", members=3, gpus=8, timeout=60, pod=high)
        await asyncio.sleep(30)
        assert set(await stage.bound()) == {"low-0", "low-1", "rock"}, "three do not fit: nobody goes for nothing"
        await submit_gang(stage.api, NS, "two", members=2, gpus=8, timeout=60, pod=high)
        await stage.until(lambda: is_bound(stage, "two-0"), 60)
        await stage.at_rest(60)
        assert set(await stage.bound()) == {"two-0", "two-1", "rock"}

    play(Setting(nodes=3), story)


@pytest.mark.fault
def test_a_scheduler_that_dies_between_eviction_and_bind_is_followed_by_one_that_binds() -> None:
    async def story(stage: Stage) -> None:
        await classes(stage)
        await submit_as(stage, "low", "low", 8)
        await stage.at_rest(15)
        await submit_as(stage, "high", "high", 8)
        await asyncio.sleep(2)
        stage.schedulers[0].crash()
        await submit_as(stage, "low", "late", 8)
        await asyncio.sleep(20)
        stage.schedulers[0].start()
        await stage.until(lambda: is_bound(stage, "high"), 60)
        await stage.at_rest(60)
        assert set(await stage.bound()) == {"high"}

    play(Setting(nodes=1, stop=SLOWLY), story)
