"""The provisioner in virtual time: nodes come on demand, and go without regret."""

import asyncio

import pytest

from tests.control.provisioning.stage import Stage, play

pytestmark = pytest.mark.story


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

    play(story)


def test_scenario_a() -> None:
    """12 nodes, 8 in use, 80 %: 10 stay; 2 are tainted, and go after the delay."""

    async def story(stage: Stage) -> None:
        await stage.pool()
        await stage.pods(names(12))
        await stage.served()
        await stage.leave(*names(12)[8:])
        began = await stage.until(lambda: two_tainted(stage))
        await asyncio.sleep(3)
        status = (await stage.status()).status
        assert (status.target_size, len(status.tainted_nodes), status.utilization) == (10, 2, 66)
        assert 300 <= await stage.has(10) - began <= 305
        await asyncio.sleep(600)
        assert (len(await stage.nodes()), await stage.tainted()) == (10, 0)

    play(story)


async def two_tainted(stage: Stage) -> bool:
    return await stage.tainted() == 2


def test_scenario_c() -> None:
    """Before the delay a pod comes back: 11 are wanted, one taint goes; at the delay one node does."""

    async def story(stage: Stage) -> None:
        await stage.pool()
        await stage.pods(names(12))
        await stage.served()
        await stage.leave(*names(12)[8:])
        began = await stage.until(lambda: two_tainted(stage))
        await asyncio.sleep(200)
        await stage.pods(["back"])

        async def one_tainted() -> bool:
            return await stage.tainted() == 1

        assert await stage.until(one_tainted) - began < 210
        assert (await stage.status()).status.target_size == 11
        assert 300 <= await stage.has(11) - began <= 305
        assert len(stage.cloud.made) == 12

    play(story)
