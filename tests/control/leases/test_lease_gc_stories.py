"""The lease sweeper in virtual time: deadlines, bad weather, rivals, and binds that come late."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.control.leases.lease_gc import Scene
from ullage.act.bind import PodBinder
from ullage.act.lease_release import LeaseReleaser
from ullage.act.leases import LeaseClient, LeaseHolder, LeaseRequest, LeasesAcquired
from ullage.decide.leases.release import ReleaseReason
from ullage.kube.client.api import DELETE_NOW, KubeApi
from ullage.kube.client.resources import LEASES, NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request
from ullage.model.allocation import ALLOCATED, lease_name
from ullage.model.intents import BindPod
from ullage.model.units import Milli
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import FAULTS, FaultRates, Latency, NetworkConditions, NetworkFault
from ullage.sim.virtual_time import loop_clock, run_virtual

pytestmark = pytest.mark.story

NS = "default"


class World:
    """A simulated API server that counts what it is asked."""

    def __init__(self, seed: int = 1) -> None:
        self.asked: list[str] = []
        self.server = SimulatedApiServer(loop_clock(), seed=seed)

    def client(self, network: NetworkConditions | None = None, seed: int = 1) -> KubeApi:
        if network is not None:
            network.script(self._count)
        return RestApi(InMemoryTransport(self.server, network=network), rng=random.Random(seed))

    def _count(self, request: Request) -> None:
        self.asked.append(f"{request.method} {request.path}")

    async def scene(self) -> Scene:
        scene = Scene(self.client(), NS, loop_clock())
        await scene.prepare()
        return scene


def told(story: Coroutine[Any, Any, None]) -> None:
    run_virtual(story)


def test_a_placement_is_abandoned_after_a_minute_without_a_write() -> None:
    async def story() -> None:
        scene = await World().scene()
        holder = await scene.pod("p")
        await scene.hold(holder, 0)
        async with scene.swept():
            await asyncio.sleep(50)
            await scene.hold(holder, 0)
            await asyncio.sleep(59)
            assert await scene.held() == {0}
            await asyncio.sleep(2)
            assert await scene.held() == set()
        assert [freed.why for freed in scene.freed] == [ReleaseReason.ABANDONED]

    told(story())


def test_a_share_is_abandoned_though_others_write_the_lease() -> None:
    async def story() -> None:
        scene = await World().scene()
        idle, busy = await scene.pod("p"), await scene.running("q", 0, milli=100)
        await scene.hold(idle, 0, milli=100)
        async with scene.swept():
            for _ in range(7):
                await asyncio.sleep(10)
                await scene.hold(busy, 0, milli=100)
            await asyncio.sleep(1)
        assert [freed.uid for freed in scene.freed] == [idle.uid]
        assert await scene.held() == {0}

    told(story())


def test_a_lease_of_the_future_is_abandoned_in_our_time() -> None:
    async def story() -> None:
        scene = await World().scene()
        await scene.hold(await scene.pod("p"), 0)
        name = (await scene.api.list(LEASES, NS)).items[0].metadata.name
        raw = await scene.api.get(LEASES.whole(), name, NS)
        raw["spec"]["renewTime"] = "2099-01-01T00:00:00.000000Z"
        await scene.api.replace(LEASES, raw)
        async with scene.swept():
            await asyncio.sleep(61)
        assert await scene.held() == set()

    told(story())


def test_a_fresh_lease_is_not_abandoned_because_its_writers_clock_is_behind() -> None:
    async def story() -> None:
        scene = await World().scene()
        async with scene.swept():
            await asyncio.sleep(1)
            await scene.hold(await scene.pod("p"), 0)
            raw = await scene.api.get(LEASES.whole(), f"gpu-{scene.node}-0", NS)
            raw["spec"]["renewTime"] = "2001-01-01T00:00:00.000000Z"
            await scene.api.replace(LEASES, raw)
            await asyncio.sleep(55)
            assert await scene.held() == {0}
            await asyncio.sleep(10)
            assert await scene.held() == set()

    told(story())


def test_quarantine_of_an_agent_an_hour_ahead_ends_in_our_time() -> None:
    async def story() -> None:
        scene = await World().scene()
        holder = await scene.running("p", 0)
        async with scene.swept():
            await scene.report(holder.uid, ahead=3600.0)
            await asyncio.sleep(1)
            await scene.report(holder.uid, ahead=3600.0)
            await scene.api.delete(PODS, "p", NS, how=DELETE_NOW)
            await asyncio.sleep(60)
            assert await scene.held() == {0}
            await asyncio.sleep(40)
            assert await scene.held() == set()

    told(story())


def test_quarantine_ends_when_the_agent_falls_silent() -> None:
    async def story() -> None:
        scene = await World().scene()
        holder = await scene.running("p", 0)
        await scene.report(holder.uid)
        await scene.api.delete(PODS, "p", NS, how=DELETE_NOW)
        async with scene.swept():
            await asyncio.sleep(89)
            assert await scene.held() == {0}
            await asyncio.sleep(2)
            assert await scene.held() == set()

    told(story())


def test_a_bound_pod_keeps_its_gpus_while_its_node_is_away() -> None:
    async def story() -> None:
        scene = await World().scene()
        await scene.running("p", 0)
        async with scene.swept():
            await scene.api.delete(NODES, scene.node)
            await asyncio.sleep(3600)
            assert await scene.held() == {0}
            await scene.api.delete(PODS, "p", NS, how=DELETE_NOW)
            await asyncio.sleep(1)
            assert await scene.held() == set()

    told(story())


def test_a_quiet_cluster_costs_nothing() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        for number in range(8):
            await scene.running(f"p{number}", number)
        async with scene.swept(through=world.client(NetworkConditions())):
            await asyncio.sleep(1)
            world.asked.clear()
            await asyncio.sleep(120)
        assert [asked for asked in world.asked if "watch" not in asked] == []

    told(story())


def test_a_thousand_gpus_are_free_within_thirty_seconds_and_each_pod_is_read_once() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        for number in range(125):
            await scene.api.create(NODES, {"metadata": {"name": f"n{number}"}})
            node = Scene(scene.api, NS, scene.clock)
            holder = await node.pod(f"p{number}")
            await reserve_on(node, holder, f"n{number}")
        network = NetworkConditions(latency=Latency(default=0.02, watch=0.05))
        async with scene.swept(through=world.client(network)):
            await asyncio.sleep(5)
            world.asked.clear()
            for number in range(125):
                await scene.api.delete(PODS, f"p{number}", NS, how=DELETE_NOW)
            await asyncio.sleep(30)
        assert (await scene.api.list(LEASES, NS)).items == []
        looks = [asked for asked in world.asked if "/pods/" in asked]
        assert len(looks) == len(set(looks)) == 125

    told(story())


async def reserve_on(scene: Scene, holder: LeaseHolder, node: str) -> None:
    assert isinstance(await scene.book.reserve(holder, LeaseRequest(node, tuple(range(8)))), LeasesAcquired)
    await scene.bind(holder, *range(8), node=node)


@pytest.mark.fault
@pytest.mark.parametrize("seed", range(5))
def test_bad_weather_delays_and_loses_nothing(seed: int) -> None:
    async def story() -> None:
        world = World(seed)
        scene = await world.scene()
        gone = [await scene.running(f"p{number}", number) for number in range(4)]
        await scene.running("alive", 7)
        odds = FaultRates(dict.fromkeys(FAULTS, 0.1), stream_cut=0.1)
        network = NetworkConditions(seed=seed, latency=Latency(default=0.02, spread=1.0, watch=0.1), odds=odds)
        async with scene.swept(through=world.client(network, seed), seed=seed):
            await asyncio.sleep(20)
            for holder in gone:
                await scene.api.delete(PODS, holder.pod.name, NS, how=DELETE_NOW)
            network.partitioned = True
            await asyncio.sleep(20)
            network.partitioned = False
            await asyncio.sleep(60)
        assert await scene.held() == {7}

    told(story())


@pytest.mark.fault
@pytest.mark.parametrize("milli", [pytest.param(1000, id="whole"), pytest.param(400, id="shared")])
@pytest.mark.parametrize("seed", range(8))
def test_a_bound_pod_holds_its_gpus_and_an_unbound_one_none(seed: int, milli: int) -> None:
    """Placers that hang between reserving and binding for about as long as the sweepers have patience."""

    async def story() -> None:
        world, dice = World(seed), random.Random(seed)
        scene = await world.scene()

        async def place(number: int) -> None:
            holder = await scene.pod(f"p{number}")
            for attempt in range(2):
                network = NetworkConditions(seed=seed + number, latency=Latency(default=0.05, spread=1.0))
                binds = lambda request: request.path.endswith("/binding")  # noqa: E731 - one condition
                network.next_calls(*dice.choices([None, NetworkFault.LOST, NetworkFault.REFUSED], k=2), where=binds)
                slow = _Hangs(world.client(network, seed + number), dice.uniform(50, 70))
                pod = await scene.api.get(PODS, f"p{number}", NS)
                action = BindPod(
                    pod=holder.pod,
                    uid=holder.uid,
                    resource_version=pod.metadata.resource_version,
                    node=scene.node,
                    why="a test",
                    devices=(number, number + 1),
                    milli=Milli(milli),
                    visible=("x",),
                )
                await PodBinder(slow, LeaseClient(slow, NS, scene.clock)).perform(action)
                await asyncio.sleep(attempt)

        client = world.client(NetworkConditions(seed=seed, latency=Latency(default=0.05, spread=1.0, watch=0.05)))
        async with scene.swept(seed=seed), scene.swept(through=client, seed=seed + 1):
            await asyncio.gather(*(place(number) for number in range(5)))
            await asyncio.sleep(100)
        await check(scene, milli)

    told(story())


async def check(scene: Scene, milli: int) -> None:
    """Every bound pod's GPUs are its own, and nobody else holds any."""
    allocated: dict[int, set[str]] = {}
    for pod in (await scene.api.list(PODS, NS)).items:
        if pod.spec.node_name:
            for device in pod.metadata.annotations[ALLOCATED].rpartition(":")[2].split(","):
                allocated.setdefault(int(device), set()).add(pod.metadata.uid)
    assert {device: await holders_of(scene, device) for device in await scene.held()} == allocated
    assert all(len(uids) * milli <= 1000 for uids in allocated.values())


async def holders_of(scene: Scene, device: int) -> set[str]:
    lease = await LeaseReleaser(scene.api, NS).lease(lease_name(scene.node, device))
    return set() if lease is None else {hold.uid for hold in lease.holds}


class _Hangs:
    """An API behind which a placer falls asleep before it binds."""

    def __init__(self, api: KubeApi, seconds: float) -> None:
        self._api = api
        self._seconds = seconds

    async def bind(self, *arguments: Any) -> None:
        await asyncio.sleep(self._seconds)
        await self._api.bind(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)
