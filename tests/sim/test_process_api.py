"""Processes on the simulated API server: what a crash leaves undone, and what a busy process had already sent."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ullage.kube.client.resources import CONFIG_MAPS
from ullage.kube.client.rest import RestApi
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import Latency, NetworkConditions
from ullage.sim.process import ProcessRun, SimulatedProcess
from ullage.sim.virtual_time import loop_clock, run_virtual

pytestmark = pytest.mark.story


def api_of(life: ProcessRun) -> RestApi:
    return RestApi(life.transport, rng=random.Random(1))


async def marks_and_cleans_up(life: ProcessRun) -> None:
    api = api_of(life)
    await api.create(CONFIG_MAPS, {"metadata": {"name": "mark"}}, "default")
    try:
        await asyncio.sleep(100)
    finally:
        await api.delete(CONFIG_MAPS, "mark", "default")


async def names_after(
    program: Callable[[ProcessRun], Coroutine[Any, Any, None]], end: Callable[[SimulatedProcess], object]
) -> list[str]:
    """Which marks are there after a process ran for 10 s, was ended in that way, and a minute has passed."""
    server = SimulatedApiServer(loop_clock(), seed=1)
    network = NetworkConditions(latency=Latency(default=0.5))
    process = SimulatedProcess("worker", lambda: InMemoryTransport(server, network=network), program)
    process.start()
    await asyncio.sleep(10)
    result = end(process)
    if asyncio.iscoroutine(result):
        await result
    await asyncio.sleep(60)
    page = await RestApi(InMemoryTransport(server), rng=random.Random(1)).list(CONFIG_MAPS, "default")
    return [thing["metadata"]["name"] for thing in page.items if thing["metadata"]["name"] != "kube-root-ca.crt"]


def test_a_crashed_process_does_not_clean_up() -> None:
    assert run_virtual(names_after(marks_and_cleans_up, SimulatedProcess.crash)) == ["mark"]


def test_a_stopped_process_does() -> None:
    assert run_virtual(names_after(marks_and_cleans_up, SimulatedProcess.stop)) == []


def test_a_request_on_its_way_arrives_while_its_sender_thinks() -> None:
    async def story() -> list[float]:
        clock = loop_clock()
        server = SimulatedApiServer(clock, seed=1)
        answered: list[float] = []

        async def main(life: ProcessRun) -> None:
            async def create() -> None:
                await api_of(life).create(CONFIG_MAPS, {"metadata": {"name": "mark"}}, "default")
                answered.append(clock.steady())

            creating = asyncio.create_task(create())
            await asyncio.sleep(0.1)
            await life.charge(30)
            await creating

        network = NetworkConditions(latency=Latency(default=2.0))
        SimulatedProcess("worker", lambda: InMemoryTransport(server, network=network), main).start()
        await asyncio.sleep(1.5)
        observer = RestApi(InMemoryTransport(server), rng=random.Random(1))
        assert await observer.get(CONFIG_MAPS, "mark", "default")
        await asyncio.sleep(60)
        return answered

    assert run_virtual(story()) == [30.1]
