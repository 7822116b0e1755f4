"""Waiting for volumes in virtual time: slow makers, cut watches, and nobody who asks again and again."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.act.storage import NODE, Storage
from ullage.act.volumes import NotReady, VolumeSelector
from ullage.kube.api import KubeApi
from ullage.kube.rest import RestApi
from ullage.kube.transport import Request
from ullage.model.action import VolumePromise
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.weather import Fault, Latency, Odds, Weather
from ullage.sim.time import loop_clock, run_virtual

pytestmark = pytest.mark.story

NS = "default"


class World:
    """One API server; what goes through `client` is counted."""

    def __init__(self) -> None:
        self.server = SimulatedApiServer(loop_clock(), seed=1)
        self.asked: list[str] = []

    def client(self, weather: Weather | None = None) -> KubeApi:
        if weather is not None:
            weather.script(self._count)
        return RestApi(InMemoryTransport(self.server, weather=weather), rng=random.Random(1))

    def _count(self, request: Request) -> None:
        self.asked.append(f"{request.method} {request.path}")

    async def storage(self, seconds: float) -> Storage:
        storage = Storage(self.client(), NS, seconds=seconds)
        await storage.prepare()
        return storage


def told(story: Coroutine[Any, Any, None]) -> None:
    run_virtual(story)


def test_a_volume_that_takes_nine_minutes_is_waited_for_without_asking() -> None:
    async def story() -> None:
        world = World()
        storage = await world.storage(seconds=270)
        await storage.claim("a")
        async with storage.working():
            answer = await VolumeSelector(world.client(Weather())).ready(NS, ["a"], NODE)
        assert answer is None
        assert asyncio.get_running_loop().time() == pytest.approx(540, abs=15)
        assert len(world.asked) < 15, world.asked

    told(story())


def test_after_ten_minutes_it_is_given_up() -> None:
    async def story() -> None:
        world = World()
        storage = await world.storage(seconds=1)
        await storage.claim("a")
        async with storage.working(binding=False):
            answer = await VolumeSelector(world.client()).ready(NS, ["a"], NODE)
        assert isinstance(answer, NotReady)
        assert asyncio.get_running_loop().time() == pytest.approx(600, abs=1)

    told(story())


STORM = Odds({Fault.REFUSED: 0.1, Fault.BROKEN: 0.1}, stream_cut=0.5)


@pytest.mark.fault
def test_no_news_is_missed_whatever_the_weather() -> None:
    async def story(seed: int) -> None:
        world = World()
        storage = await world.storage(seconds=20)
        await storage.claim("a")
        await storage.claim("b", local=True)
        volume = await storage.volume("v")
        weather = Weather(seed=seed, latency=Latency(default=0.01, spread=3, watch=0.1))
        selector = VolumeSelector(world.client(weather))
        async with storage.working(), asyncio.TaskGroup() as group:
            waiting = group.create_task(selector.ready(NS, ["a", "b"], NODE, [VolumePromise("b", volume)]))
            await asyncio.sleep(5)
            weather.odds = STORM
        assert waiting.result() is None
        assert asyncio.get_running_loop().time() < 120

    for seed in range(20):
        told(story(seed))


def test_two_who_wait_for_one_claim_tell_it_one_node() -> None:
    """Two pods share a claim and were put on different nodes: the first to say so decides."""

    async def story() -> None:
        world = World()
        storage = await world.storage(seconds=3)
        await storage.claim("a")
        weathers = [Weather(seed=seed, latency=Latency(default=0.01, spread=2)) for seed in (1, 2)]
        selectors = [VolumeSelector(world.client(weather)) for weather in weathers]
        async with storage.working():
            answers = await asyncio.gather(
                *(one.ready(NS, ["a"], node) for one, node in zip(selectors, ("node-a", "node-b"), strict=True))
            )
        assert sorted(answer is None for answer in answers) == [False, True]
        assert await storage.selected("a") == ("node-a", "node-b")[answers.index(None)]

    told(story())
