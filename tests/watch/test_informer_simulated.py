"""Informers in a simulated process that is too busy to listen: the server gives up on it, and nothing is lost."""

import asyncio
import random

import pytest

from tests.watch.hostile import Reader
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import CONFIG_MAPS, NAMESPACES
from ullage.kube.client.rest import RestApi
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.process import ProcessRun, SimulatedProcess
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.watch.informer import Informer, InformerCounts, InformerSpec

pytestmark = pytest.mark.story


def read(thing: JsonObject) -> tuple[str, str]:
    return thing["metadata"]["uid"], thing.get("data", {}).get("value", "")


@pytest.mark.parametrize(
    ("history", "gaps"),
    [
        pytest.param(100_000, 0, id="the-server-remembers-and-the-watch-resumes"),
        pytest.param(500, 1, id="the-server-has-forgotten-and-a-list-fills-the-gap"),
    ],
)
def test_a_busy_process_whose_watch_was_closed_misses_nothing(history: int, gaps: int) -> None:
    reader, counts = Reader(), list[InformerCounts]()

    async def listen(life: ProcessRun) -> None:
        rng = random.Random(1)
        api = RestApi(life.transport, rng=rng)
        interest = InformerSpec(CONFIG_MAPS, read, namespace="busy", chunk=50)
        informer = Informer(api, interest, reader.deliver, rng=rng, clock=life.clock)
        counts.append(informer.counts)
        listening = asyncio.create_task(informer.run())
        await informer.wait_synced()
        await asyncio.sleep(1)
        await life.charge(5)
        await listening

    async def story() -> dict[str, str]:
        server = SimulatedApiServer(loop_clock(), seed=1, history=history, watch_buffer=200)
        api = RestApi(InMemoryTransport(server), rng=random.Random(2))
        await api.create(NAMESPACES, {"metadata": {"name": "busy"}})
        names = [f"thing-{number}" for number in range(100)]
        for name in names:
            await api.create(CONFIG_MAPS, {"metadata": {"name": name}}, "busy")
        SimulatedProcess("listener", lambda: InMemoryTransport(server), listen).start()
        await asyncio.sleep(1.5)
        for turn in range(2000):
            await asyncio.sleep(0.001)
            name = names[turn * 7 % 100]
            if turn % 50 == 0:
                await api.delete(CONFIG_MAPS, name, "busy")
                await api.create(CONFIG_MAPS, {"metadata": {"name": name}}, "busy")
            await api.patch(CONFIG_MAPS, name, MergePatch({"data": {"value": str(turn)}}), "busy")
        await asyncio.sleep(30)
        return {thing["metadata"]["name"]: read(thing)[1] for thing in (await api.list(CONFIG_MAPS, "busy")).items}

    truth = run_virtual(story())
    assert reader.values == truth
    assert counts[0].gaps == gaps
    assert counts[0].resumes + counts[0].lists >= 2
