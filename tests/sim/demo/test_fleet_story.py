"""The story `fleet`: two hundred nodes, gangs of dozens, and a night."""

import pytest

from tests.sim.demo.onlooker import Onlooker, look_on
from ullage.sim.demo.fleet import FLEET

AT = {moment.name: moment.at for moment in FLEET.story_steps}


@pytest.mark.story
@pytest.mark.full
def test_the_fleet_is_filled_grows_for_a_gang_and_shrinks_at_night() -> None:
    async def placed(eye: Onlooker, app: str) -> int:
        return sum(bool(pod.spec.node_name) for pod in await eye.pods(app))

    async def seen(eye: Onlooker) -> None:
        assert len(await eye.nodes()) == 200
        await eye.world.sleep_until(AT["gangs"])
        assert [await placed(eye, app) for app in ("chat", "embed", "notebook")] == [190, 120, 40]
        await eye.world.sleep_until(AT["large"])
        assert [await placed(eye, app) for app in ("pretrain", "tune-a", "tune-b")] == [48, 16, 16]

        async def whole() -> bool:
            there = await placed(eye, "second")
            assert there in (0, 44), "a gang in part"
            return there == 44

        await eye.until(whole, within=AT["deaths"] - AT["large"])
        assert len(await eye.nodes("h100")) == 92
        await eye.world.sleep_until(AT["night"])
        assert len(await eye.events("GpuUnhealthy")) == 3

        async def shrunk() -> bool:
            assert await eye.budgets_kept()
            await eye.draining()
            return len(await eye.nodes("l4")) == 15 and len(await eye.nodes("h100")) == 80

        await eye.until(shrunk, within=AT["yours"] - AT["night"])
        assert eye.most_draining >= 5
        assert await placed(eye, "chat") == 40

    look_on(FLEET, seen)
