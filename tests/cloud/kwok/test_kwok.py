"""Fake nodes: the contract on both API servers, and what becomes of machines."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.cloud.benches import H100S, Requests
from tests.contract.expect import eventually
from tests.contract.worlds import World
from ullage.clock import WallClock
from ullage.cloud.api import CloudProvider, OutcomeUnknown, PoolRef, Throttled
from ullage.cloud.kwok.provider import KwokProvider
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import GPU_NODE_STATUSES, NODES
from ullage.kube.read import read_node
from ullage.kube.read.gpu import read_inventory
from ullage.model.instance import Instance
from ullage.model.resources import whole_gpus
from ullage.testing.cloud_contract import CloudContract, CloudTrouble, ProviderBench


class KwokBench(Requests):
    def __init__(self, api: KubeApi, namespace: str) -> None:
        super().__init__({"one": {}, "two": {}})
        self.kwok = KwokProvider(api, WallClock(), namespace=namespace)

    @property
    def provider(self) -> CloudProvider:
        return self.kwok

    async def settle(self) -> None:
        return None

    async def trouble(self, trouble: CloudTrouble) -> None:
        match trouble:
            case CloudTrouble.NO_CAPACITY:
                self._parameters = {"one": {"capacity": "0"}}
            case CloudTrouble.ONE_LEFT:
                self._parameters = {"one": {"capacity": "1"}}
            case CloudTrouble.QUOTA:
                self.kwok.quota = 0
            case CloudTrouble.THROTTLED:
                self.kwok.faults.fail("create", Throttled("slow down"))
            case CloudTrouble.LOST_ANSWER:
                self.kwok.faults.lose_answer("create")
            case CloudTrouble.DELETE_FAILS:
                self.kwok.faults.fail("delete", OutcomeUnknown("no answer"))


class TestKwok(CloudContract):
    @pytest.fixture
    def bench(self, api: KubeApi, world: World) -> ProviderBench:
        return KwokBench(api, world.namespace)


@pytest.fixture
async def kwok(api: KubeApi, world: World) -> AsyncIterator[KwokProvider]:
    """A provider that tends its machines."""
    provider = KwokProvider(api, WallClock(), namespace=f"{world.namespace}-books")
    running = asyncio.create_task(provider.run())
    yield provider
    running.cancel()
    for one in await provider.list([]):
        await provider.delete([one.id])


def a_pool(world: World, **parameters: str) -> PoolRef:
    return PoolRef(name=world.namespace, parameters=parameters)


async def joined(kwok: KwokProvider, count: int) -> list[Instance]:
    async def nodes() -> list[Instance]:
        return [one for one in await kwok.list([]) if one.node]

    return await eventually(nodes, until=lambda found: len(found) == count, seconds=20)


async def test_a_machine_becomes_a_node_and_then_has_gpus(kwok: KwokProvider, api: KubeApi, world: World) -> None:
    pool = a_pool(world, bootSeconds="1", gpuSeconds="1")
    created = await kwok.create(Requests().request(pool, 1, f"{world.namespace}-token"))
    assert [one.node for one in created.instances] == [""]
    (machine,) = await joined(kwok, 1)
    bare = read_node(await api.get(NODES, machine.node))
    assert (bare.ready, whole_gpus(bare.allocatable)) == (True, 0)
    assert bare.labels["gpu.scheduling/provisioner"] == world.namespace
    assert bare.labels["tier"] == "gold"

    async def models() -> list[str]:
        page = await api.list(GPU_NODE_STATUSES)
        reports = [read_inventory(one) for one in page.items if one.metadata.name == machine.node]
        return [device.model for report in reports for device in report.devices]

    assert await eventually(models, until=bool, seconds=20) == ["H100"] * 8
    assert whole_gpus(read_node(await api.get(NODES, machine.node)).allocatable) == 8
    assert (await kwok.templates(pool)) == [H100S]


async def test_a_machine_that_never_joins_stays_a_machine(kwok: KwokProvider, api: KubeApi, world: World) -> None:
    kwok.faults.never_joins = 1
    await kwok.create(Requests().request(a_pool(world), 2, f"{world.namespace}-token"))
    (machine,) = await joined(kwok, 1)
    assert len(await kwok.list([])) == 2
    names = [node.metadata.name for node in (await api.list(NODES)).items]
    assert [name for name in names if name.startswith(f"{world.namespace}-")] == [machine.node]


async def test_another_process_goes_on_where_one_was_killed(api: KubeApi, world: World) -> None:
    """The books are on the API server: nothing is made twice, and what had not joined yet joins."""
    books = f"{world.namespace}-books"
    request = Requests().request(a_pool(world, bootSeconds="1"), 2, f"{world.namespace}-token")
    first = KwokProvider(api, WallClock(), namespace=books)
    await first.create(request)
    second = KwokProvider(api, WallClock(), namespace=books)
    running = asyncio.create_task(second.run())
    try:
        await second.create(request)
        machines = await joined(second, 2)
        assert len(machines) == 2
        await second.delete([one.id for one in machines])
        names = [node.metadata.name for node in (await api.list(NODES)).items]
        assert not [name for name in names if name.startswith(f"{world.namespace}-")]
        assert await second.list([]) == []
    finally:
        running.cancel()
