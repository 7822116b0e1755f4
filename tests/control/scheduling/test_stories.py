"""The scheduler on the simulated API server, in virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.control.scheduling.fleet import add_nodes, keep_reporting, submit
from ullage.clock import Clock
from ullage.control.scheduling.start import Scheduler, SchedulerSettings
from ullage.kube.api import DELETE_NOW, KubeApi
from ullage.kube.crds.install import install
from ullage.kube.resources import LEASES, NAMESPACES, PODS
from ullage.kube.rest import RestApi
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.weather import Latency, Weather
from ullage.sim.time import loop_clock, run_virtual
from ullage.testing.builders import a_namespace, a_pod
from ullage.testing.placement_check import breaches, islands_of, read_placements

pytestmark = pytest.mark.story

LEASE_NAMESPACE = "ullage-system"


@dataclass(frozen=True)
class Stage:
    """A cluster with GPU nodes and a scheduler at work."""

    api: KubeApi
    clock: Clock
    server: SimulatedApiServer

    async def bound(self) -> dict[str, str]:
        return {pod.metadata.name: pod.spec.node_name for pod in (await self.api.list(PODS)).items}

    async def sound(self) -> list[str]:
        return list(breaches(await read_placements(self.api, LEASE_NAMESPACE)))


def an_api(server: SimulatedApiServer, seed: int) -> RestApi:
    return RestApi(InMemoryTransport(server, weather=Weather(seed=seed, latency=Latency())), rng=random.Random(seed))


@asynccontextmanager
async def staged(nodes: int, schedulers: int = 1, seed: int = 1) -> AsyncIterator[Stage]:
    clock = loop_clock()
    server = SimulatedApiServer(clock, seed=seed)
    api = an_api(server, seed)
    await install(api)
    await api.create(NAMESPACES, a_namespace(LEASE_NAMESPACE))
    names = [f"node-{number:02d}" for number in range(nodes)]
    await add_nodes(api, names, clock)
    work = [asyncio.ensure_future(keep_reporting(api, names, clock))]
    for number in range(schedulers):
        settings = SchedulerSettings(lease_namespace=LEASE_NAMESPACE)
        own = an_api(server, seed + 1 + number)
        scheduler = Scheduler(own, settings, clock, instance=f"scheduler-{number}", seed=seed + number)
        work.append(asyncio.ensure_future(scheduler.run()))
        await scheduler.wait_ready()
    try:
        yield Stage(api, clock, server)
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


def play(nodes: int, story: Callable[[Stage], Awaitable[None]], *, schedulers: int = 1, seed: int = 1) -> None:
    async def live() -> None:
        async with staged(nodes, schedulers, seed) as stage:
            await story(stage)

    run_virtual(live())


def test_claims_land_on_islands_and_everything_said_of_them_agrees() -> None:
    async def story(stage: Stage) -> None:
        for number, gpus in enumerate([4, 4, 2, 1, 8, 1, 2, 4]):
            await submit(stage.api, "default", f"p{number}", gpus)
        await asyncio.sleep(10)
        assert all((await stage.bound()).values())
        assert await stage.sound() == []
        reading = await read_placements(stage.api, LEASE_NAMESPACE)
        for pod in reading.pods:
            assert len(islands_of(reading, pod)) == (1 if len(pod.gpu_ids) <= 4 else 2)

    play(4, story)


def test_a_pod_that_does_not_fit_says_why_and_is_placed_when_room_appears() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, "default", "first", 8)
        await asyncio.sleep(5)
        await submit(stage.api, "default", "second", 8)
        await asyncio.sleep(5)
        waiting = await stage.api.get(PODS, "second", "default")
        condition = next(one for one in waiting.status.conditions if one.type == "PodScheduled")
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        assert condition.message.startswith("0/1 nodes fit: 1 ")
        await stage.api.delete(PODS, "first", "default", how=DELETE_NOW)
        await asyncio.sleep(60)
        assert (await stage.bound())["second"] == "node-00"
        assert await stage.sound() == []

    play(1, story)


def test_leases_of_pods_that_are_gone_are_swept() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, "default", "p", 2)
        await asyncio.sleep(5)
        assert len((await stage.api.list(LEASES, LEASE_NAMESPACE)).items) == 2
        await stage.api.delete(PODS, "p", "default", how=DELETE_NOW)
        await asyncio.sleep(30)
        assert (await stage.api.list(LEASES, LEASE_NAMESPACE)).items == []

    play(1, story)


def test_a_missing_claim_is_named_and_its_arrival_helps() -> None:
    async def story(stage: Stage) -> None:
        pod = a_pod("p", annotations={"gpu.scheduling/claim": "c"}, gpus=1, schedulerName="gpu-scheduler")
        await stage.api.create(PODS, pod, "default")
        await asyncio.sleep(5)
        conditions = (await stage.api.get(PODS, "p", "default")).status.conditions
        assert any("GpuClaim default/c" in one.message for one in conditions)
        await submit(stage.api, "default", "c", 1)
        await asyncio.sleep(30)
        assert (await stage.bound())["p"]

    play(1, story)


@pytest.mark.fault
@pytest.mark.parametrize("seed", range(5))
def test_two_schedulers_at_once_never_give_a_gpu_twice(seed: int) -> None:
    async def story(stage: Stage) -> None:
        chance = random.Random(seed)
        for number in range(40):
            await submit(stage.api, "default", f"p{number}", chance.choice([1, 1, 2, 4]))
        await asyncio.sleep(240)
        assert await stage.sound() == []
        bound = [pod for pod in (await read_placements(stage.api, LEASE_NAMESPACE)).pods if pod.node]
        assert sum(len(pod.gpu_ids) for pod in bound) >= 40

    play(6, story, schedulers=2, seed=seed)
