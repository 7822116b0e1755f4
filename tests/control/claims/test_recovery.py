"""What can go wrong with statuses, in virtual time: restarts, rivals, meddlers, an API that fails."""

import asyncio
from typing import Any

import pytest

from tests.control.claims.stage import NS, World, kept, told
from ullage.errors import LeadershipLost
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import GPU_CLAIMS
from ullage.sim.apiserver.network_faults import FAULTS, FaultRates, Latency, NetworkFault

pytestmark = pytest.mark.story


def test_keepers_of_two_schedulers_do_not_correct_each_other_for_ever() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        other = world.keepers_api
        async with (
            kept(world.keepers_api, world.clock) as keeping,
            kept(other, world.clock, names=("blue",), seed=2),
        ):
            await scene.claim("c")
            await asyncio.sleep(2)
            await scene.pod("p", "c")
            await asyncio.sleep(3)
            keeping.refuse("p")
            await asyncio.sleep(300)
            assert await scene.said("c") == ("Pending", "TooFewGpus", "")
            assert len(world.writes) <= 6

    told(story())


def test_wrong_statuses_are_put_right_at_the_start_and_right_ones_are_left() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock) as keeping:
            for number in range(20):
                await scene.claim(f"c{number}")
                await scene.pod(f"p{number}", f"c{number}")
                await asyncio.sleep(0.01)
                if number < 10:
                    await scene.bind(f"p{number}", "node-a", number)
                else:
                    keeping.refuse(f"p{number}")
            await asyncio.sleep(5)
        await scene.remove("p0")  # while nobody looks
        await scene.finish("p1")
        world.writes.clear()
        async with kept(world.keepers_api, world.clock) as keeping:
            await asyncio.sleep(0.5)
            for number in range(10, 20):
                keeping.refuse(f"p{number}")
            await asyncio.sleep(60)
        assert await scene.said("c0") == ("Pending", "Unused", "")
        assert await scene.said("c1") == ("Pending", "PodFinished", "")
        freed = [("PATCH", path) for path in ("c0", "c0/status", "c1", "c1/status")]
        assert sorted(world.writes) == freed, "their statuses, and their protection"

    told(story())


@pytest.mark.parametrize(
    "tampered",
    [
        pytest.param({"phase": "Pending", "nodeName": None, "gpuIds": None}, id="holds-less-than-it-does"),
        pytest.param({"allocated": "node-b:7"}, id="contradicts-itself"),
        pytest.param({"conditions": None}, id="gives-no-reason"),
    ],
)
def test_what_others_write_into_a_status_is_put_right(tampered: dict[str, object]) -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock):
            await scene.claim("c")
            await scene.pod("p", "c")
            await scene.bind("p", "node-a", 0)
            await asyncio.sleep(1)
            await scene.api.patch(GPU_CLAIMS, "c", MergePatch({"status": tampered}), NS, subresource="status")
            await asyncio.sleep(2)
            assert await scene.said("c") == ("Bound", "Bound", "node-a:0")

    told(story())


@pytest.mark.fault
def test_writes_that_fail_are_tried_again_less_and_less_often() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        forbidden = world.network.script(
            lambda request: (
                NetworkFault.BROKEN if request.method == "PATCH" and request.path.endswith("/status") else None
            )
        )
        async with kept(world.keepers_api, world.clock):
            await scene.claim("c")
            await scene.pod("p", "c")
            await scene.bind("p", "node-a", 0)
            await asyncio.sleep(300)
            assert 10 <= len(world.writes) <= 20
            forbidden()
            await asyncio.sleep(31)
            assert await scene.said("c") == ("Bound", "Bound", "node-a:0")

    told(story())


@pytest.mark.fault
def test_a_replica_that_no_longer_leads_goes_on_quietly() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        guarded: Any = _Guarded(world.keepers_api)
        async with kept(guarded, world.clock):
            await scene.claim("c")
            await asyncio.sleep(10)
            assert world.writes == []
            guarded.leads = True
            await asyncio.sleep(31)
            assert await scene.said("c") == ("Pending", "Unused", "")

    told(story())


class _Guarded:
    """An API that lets nobody write who does not lead."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self.leads = False

    async def patch(self, *arguments: Any, **options: Any) -> Any:
        if not self.leads:
            raise LeadershipLost("another replica leads")
        return await self._api.patch(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)


@pytest.mark.fault
@pytest.mark.parametrize("seed", range(4))
def test_bad_weather_delays_and_loses_nothing(seed: int) -> None:
    async def story() -> None:
        world = World(seed)
        scene = await world.scene()
        world.network.latency = Latency(default=0.02, spread=1.0, watch=0.1)
        world.network.odds = FaultRates(dict.fromkeys(FAULTS, 0.1), stream_cut=0.1)
        async with kept(world.keepers_api, world.clock):
            for number in range(8):
                await scene.claim(f"c{number}")
                await scene.pod(f"p{number}", f"c{number}")
                await scene.bind(f"p{number}", "node-a", number)
            await asyncio.sleep(20)
            world.network.partitioned = True
            for number in range(4):
                await scene.remove(f"p{number}")
            await asyncio.sleep(20)
            world.network.partitioned = False
            await asyncio.sleep(120)
            said = [(await scene.said(f"c{number}"))[:2] for number in range(8)]
        assert said == [("Pending", "Unused")] * 4 + [("Bound", "Bound")] * 4

    told(story())
