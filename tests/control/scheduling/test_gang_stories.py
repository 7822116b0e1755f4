"""Gangs in virtual time: whole or not at all, never in each other's way for long, and never in anybody else's."""

import asyncio

import pytest

from tests.control.scheduling.fleet import submit, submit_gang
from tests.control.scheduling.stage import NS, Setting, Stage, play
from ullage.kube.client.resources import POD_GROUPS
from ullage.kube.crds.catalog import POD_GROUP
from ullage.kube.crds.install import install
from ullage.watch.late_kinds import LOOK_AGAIN_SECONDS

pytestmark = pytest.mark.story

TIMEOUT = 60


async def gang(stage: Stage, name: str, members: int = 3, gpus: int = 8) -> None:
    await submit_gang(stage.api, NS, name, members=members, gpus=gpus, timeout=TIMEOUT)


async def placed(stage: Stage, name: str) -> int:
    return sum(pod.startswith(f"{name}-") for pod in await stage.bound())


async def leased(stage: Stage, name: str) -> int:
    """GPUs held for members of a gang."""
    reading = await stage.read()
    uids = {pod.uid for pod in reading.pods if pod.key.name.startswith(f"{name}-")}
    return sum(any(hold.uid in uids for hold in lease.holds) for lease in reading.leases)


@pytest.mark.parametrize("schedulers", [1, 2])
@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")], ids=["a-first", "b-first"])
@pytest.mark.parametrize("apart", [0.0, 0.02, 5.0], ids=["at-once", "a-moment-apart", "one-after-the-other"])
def test_two_gangs_that_want_the_last_nodes_never_deadlock(
    schedulers: int, order: tuple[str, str], apart: float
) -> None:
    async def story(stage: Stage) -> None:
        first = asyncio.ensure_future(gang(stage, order[0]))
        await asyncio.sleep(apart)
        await gang(stage, order[1])
        await first

        async def one_is_whole() -> bool:
            return {await placed(stage, "a"), await placed(stage, "b")} == {0, 3}

        await stage.until(one_is_whole, 2 * TIMEOUT)
        winner, loser = ("a", "b") if await placed(stage, "a") else ("b", "a")
        await stage.at_rest(2 * TIMEOUT)
        assert await leased(stage, loser) == 0, "who waits holds nothing"
        await stage.delete(*(f"{winner}-{number}" for number in range(3)))

        async def the_other_is_whole() -> bool:
            return await placed(stage, loser) == 3

        # It may have given up, and stand back for a while that doubles each time.
        await stage.until(the_other_is_whole, 5 * TIMEOUT)
        await stage.at_rest(TIMEOUT)

    play(Setting(nodes=4, schedulers=schedulers, seed=7), story)


def test_a_gang_that_cannot_fit_is_in_nobodys_way() -> None:
    async def story(stage: Stage) -> None:
        await gang(stage, "large", members=3)
        await asyncio.sleep(5)
        for number in range(8):
            await submit(stage.api, NS, f"small-{number}", 2)

        async def all_small_ones() -> bool:
            return await placed(stage, "small") == 8

        took = await stage.until(all_small_ones, TIMEOUT)
        assert took < 10
        await asyncio.sleep(3 * TIMEOUT)
        assert await placed(stage, "large") == 0
        assert await leased(stage, "large") == 0
        assert "GangTimedOut" in await stage.events("large-0")
        await stage.at_rest(TIMEOUT)

    play(Setting(nodes=2), story)


def test_a_gang_waits_for_its_last_member_and_then_comes_whole() -> None:
    async def story(stage: Stage) -> None:
        group = {"metadata": {"name": "g"}, "spec": {"minMember": 3, "scheduleTimeoutSeconds": TIMEOUT}}
        await stage.api.create(POD_GROUPS, group, NS)
        for number in range(2):
            await submit(stage.api, NS, f"g-{number}", 8, gangRef="g")
        await asyncio.sleep(20)
        assert await stage.bound() == {}
        condition = await stage.condition("g-0")
        assert "2" in condition.message
        assert "3" in condition.message
        assert (await stage.claim("g-0")).status.phase == "Pending"
        await submit(stage.api, NS, "g-2", 8, gangRef="g")
        await stage.at_rest(30)
        assert await placed(stage, "g") == 3

    play(Setting(nodes=3), story)


def test_a_gang_without_a_pod_group_is_as_large_as_its_claims_say() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "g-0", 4, gangRef="g", gangMinMember=2)
        await asyncio.sleep(10)
        assert await stage.bound() == {}
        await submit(stage.api, NS, "g-1", 4, gangRef="g", gangMinMember=2)
        await stage.at_rest(30)
        assert await placed(stage, "g") == 2

    play(Setting(nodes=1), story)


def test_gangs_whose_time_is_up_at_the_same_moment_are_all_evicted() -> None:
    async def story(stage: Stage) -> None:
        for name in ("a", "b", "c"):
            await gang(stage, name, members=2, gpus=4)
        await stage.at_rest(30)
        stage.schedulers[0].crash()
        await stage.delete("a-0", "b-0", "c-0")
        stage.schedulers[0].start()  # it finds all three in part at once
        await asyncio.sleep(TIMEOUT + 20)
        assert await stage.bound() == {}

    play(Setting(nodes=3), story)


@pytest.mark.fault
@pytest.mark.parametrize(
    ("leases", "binds"),
    [
        pytest.param(1, 0, id="with-its-first-lease"),
        pytest.param(9, 0, id="with-a-node-and-a-bit"),
        pytest.param(24, 0, id="with-all-leases-and-nobody-bound"),
        pytest.param(24, 1, id="with-one-bound"),
        pytest.param(24, 2, id="with-all-but-one-bound"),
    ],
)
def test_a_gang_whose_scheduler_dies_on_the_way_becomes_whole(leases: int, binds: int) -> None:
    async def story(stage: Stage) -> None:
        await asyncio.sleep(2)
        await gang(stage, "g", members=3)

        async def so_far() -> bool:
            return await leased(stage, "g") >= leases and await placed(stage, "g") >= binds

        await stage.until(so_far, 5, every=0.000_1)
        stage.schedulers[0].crash()
        assert (await leased(stage, "g"), await placed(stage, "g")) == (leases, binds)
        await asyncio.sleep(10)
        stage.schedulers[0].start()
        await stage.at_rest(3 * TIMEOUT)
        assert await placed(stage, "g") == 3

    play(Setting(nodes=3, seed=4), story)


def test_pod_groups_may_be_installed_while_a_scheduler_runs() -> None:
    async def story(stage: Stage) -> None:
        await asyncio.sleep(5)
        await install(stage.api, (POD_GROUP,))
        await gang(stage, "g")

        async def whole() -> bool:
            return await placed(stage, "g") == 3

        took = await stage.until(whole, 2 * LOOK_AGAIN_SECONDS)
        assert took > 10, "the scheduler knew of them before it could"
        await stage.at_rest(TIMEOUT)

    play(Setting(nodes=3, groups=False), story)
