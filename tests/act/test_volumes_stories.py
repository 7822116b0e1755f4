"""Waiting for volumes in virtual time: slow makers, cut watches, and nobody who asks again and again."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.act.storage import NODE, Storage, selector
from ullage.act.change_feed import ChangeFeed
from ullage.act.volumes import VolumeBinder, VolumesNotReady
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import VOLUME_CLAIMS
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request
from ullage.kube.read import read_volume_claim
from ullage.model.fact_event import Updated
from ullage.model.intents import VolumeAssignment
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import FaultRates, Latency, NetworkConditions, NetworkFault
from ullage.sim.virtual_time import loop_clock, run_virtual

pytestmark = pytest.mark.story

NS = "default"


class World:
    """One API server; what goes through `client` is counted."""

    def __init__(self) -> None:
        self.server = SimulatedApiServer(loop_clock(), seed=1)
        self.asked: list[str] = []

    def client(self, network: NetworkConditions | None = None) -> KubeApi:
        if network is not None:
            network.script(self._count)
        return RestApi(InMemoryTransport(self.server, network=network), rng=random.Random(1))

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
        async with storage.working(), selector(world.client(NetworkConditions()), loop_clock()) as hands:
            answer = await hands.ready(NS, ["a"], NODE)
        assert answer is None
        assert asyncio.get_running_loop().time() == pytest.approx(540, abs=15)
        assert len(world.asked) < 15, world.asked

    told(story())


def test_after_ten_minutes_it_is_given_up() -> None:
    async def story() -> None:
        world = World()
        storage = await world.storage(seconds=1)
        await storage.claim("a")
        async with storage.working(binding=False), selector(world.client(), loop_clock()) as hands:
            answer = await hands.ready(NS, ["a"], NODE)
        assert isinstance(answer, VolumesNotReady)
        assert asyncio.get_running_loop().time() == pytest.approx(600, abs=1)

    told(story())


def test_news_from_before_the_node_was_told_is_no_reason_to_give_up() -> None:
    """A watch that lags says of the claim what it was before we wrote on it."""

    async def story() -> None:
        world = World()
        storage = await world.storage(seconds=3)
        await storage.claim("a")
        api = world.client()
        feed = ChangeFeed()
        before = read_volume_claim(await api.get(VOLUME_CLAIMS, "a", NS))
        async with storage.working():
            waiting = asyncio.create_task(VolumeBinder(api, feed).ready(NS, ["a"], NODE))
            await asyncio.sleep(1)
            feed.observe(Updated(before.key, before, before))
            await asyncio.sleep(10)
            assert not waiting.done()
            feed.observe(Updated(before.key, before, read_volume_claim(await api.get(VOLUME_CLAIMS, "a", NS))))
            assert await waiting is None

    told(story())


STORM = FaultRates({NetworkFault.REFUSED: 0.1, NetworkFault.BROKEN: 0.1}, stream_cut=0.5)


@pytest.mark.fault
def test_no_news_is_missed_whatever_the_weather() -> None:
    async def story(seed: int) -> None:
        world = World()
        storage = await world.storage(seconds=20)
        await storage.claim("a")
        await storage.claim("b", local=True)
        volume = await storage.volume("v")
        network = NetworkConditions(seed=seed, latency=Latency(default=0.01, spread=3, watch=0.1))
        hearing = selector(world.client(network), loop_clock())
        async with storage.working(), hearing as hands, asyncio.TaskGroup() as group:
            waiting = group.create_task(hands.ready(NS, ["a", "b"], NODE, [VolumeAssignment("b", volume)]))
            await asyncio.sleep(5)
            network.odds = STORM
        assert waiting.result() is None
        assert asyncio.get_running_loop().time() < 300, "an informer waits up to 15 s after each cut"

    for seed in range(20):
        told(story(seed))


def test_two_who_wait_for_one_claim_tell_it_one_node() -> None:
    """Two pods share a claim and were put on different nodes: the first to say so decides."""

    async def story() -> None:
        world = World()
        storage = await world.storage(seconds=3)
        await storage.claim("a")
        weathers = [NetworkConditions(seed=seed, latency=Latency(default=0.01, spread=2)) for seed in (1, 2)]
        first, second = (selector(world.client(network), loop_clock()) for network in weathers)
        async with storage.working(), first as here, second as there:
            answers = await asyncio.gather(here.ready(NS, ["a"], "node-a"), there.ready(NS, ["a"], "node-b"))
        assert sorted(answer is None for answer in answers) == [False, True]
        assert await storage.selected("a") == ("node-a", "node-b")[answers.index(None)]

    told(story())
