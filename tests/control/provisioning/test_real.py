"""`ullage controller` on the real control plane, with fake nodes: bought, used, tainted, spared, given back; killed."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.fleet import each
from tests.control.scheduling.programs import ALONE
from tests.kube.crds.bad_provisioners import with_fields
from ullage.errors import NotFound
from ullage.kube.api import DELETE_NOW, KubeApi
from ullage.kube.objects.node import Node
from ullage.kube.resources import NODE_PROVISIONERS, NODES, PODS
from ullage.model.provisioner import DELETION_TAINT, PROVISIONER_LABEL
from ullage.testing.builders import a_pod
from ullage.testing.controlplane import ControlPlane

pytestmark = pytest.mark.real

NS = "default"
DELAY = 20


@dataclass
class Observer:
    """Looks at the cluster again and again; remembers every node, and what was wrong."""

    api: KubeApi
    most: dict[str, int]
    made: dict[str, str] = field(default_factory=dict)
    """Nodes ever seen, with their pools."""
    pods_on: dict[str, set[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    async def look(self) -> list[Node]:
        pods = (await self.api.list(PODS)).items
        nodes = (await self.api.list(NODES)).items
        for node in nodes:
            self.made.setdefault(node.metadata.name, node.metadata.labels.get(PROVISIONER_LABEL, ""))
        pools = [node.metadata.labels.get(PROVISIONER_LABEL, "") for node in nodes]
        for pool, most in self.most.items():
            if pools.count(pool) > most:
                self.wrong.append(f"{pool} has {pools.count(pool)} nodes")
        there = {node.metadata.name for node in nodes}
        self.wrong += [
            f"{pod.metadata.name} lost {pod.spec.node_name}"
            for pod in pods
            if pod.spec.node_name and pod.spec.node_name not in there
        ]
        return list(nodes)

    async def watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(0.3)


@asynccontextmanager
async def observed(api: KubeApi, **most: int) -> AsyncIterator[Observer]:
    observer = Observer(api, most)
    watching = asyncio.ensure_future(observer.watch())
    try:
        yield observer
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert observer.wrong == []


async def a_pool(api: KubeApi, name: str, **fields: Any) -> None:
    plain = {
        "provider": {"name": "kwok", "parameters": {"bootSeconds": "1", "gpuSeconds": "1"}},
        "template.gpus.count": 1,
        "maxSize": 50,
        "minGPUUtilizationPercent": 80,
        "scaleDownDelay": f"{DELAY}s",
        "scaleUpBatch": "2s",
    }
    spec = with_fields(plain | {key.replace("__", "."): value for key, value in fields.items()})
    await api.create(NODE_PROVISIONERS, {"metadata": {"name": name}, "spec": spec})


async def submit(api: KubeApi, names: list[str], gpus: int = 1) -> None:
    async def one(name: str) -> None:
        body = a_pod(name, gpus=gpus, schedulerName="gpu-scheduler", terminationGracePeriodSeconds=0)
        await api.create(PODS, body, NS)

    await each(names, one)


async def leave(api: KubeApi, names: list[str]) -> None:
    async def one(name: str) -> None:
        try:
            await api.delete(PODS, name, NS, how=DELETE_NOW)
        except NotFound:
            return

    await each(names, one)


async def until(holds: Callable[[], Awaitable[bool]], seconds: float, programs: PoolPrograms) -> float:
    """Wait until it holds; returns how long that took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not await holds():
        programs.check_running()
        assert loop.time() - began < seconds, f"not within {seconds:g} s:\n{programs.said()}"
        await asyncio.sleep(0.2)
    return loop.time() - began


class Looks:
    """Questions about the cluster."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def all_bound(self) -> bool:
        return all(pod.spec.node_name for pod in (await self._api.list(PODS)).items)

    def nodes(self, count: int, tainted: int = 0) -> Callable[[], Awaitable[bool]]:
        async def so_many() -> bool:
            found = (await self._api.list(NODES)).items
            going = sum(any(taint.key == DELETION_TAINT for taint in node.spec.taints) for node in found)
            return (len(found), going) == (count, tainted)

        return so_many


def names(count: int, prefix: str = "p") -> list[str]:
    return [f"{prefix}-{number:03}" for number in range(count)]


async def test_scenarios_a_and_c(plane: ControlPlane, api: KubeApi, programs: PoolPrograms) -> None:
    """12 nodes, 8 in use: 10 are wanted, 2 tainted. One pod comes back: one is spared, one goes (C). Then A."""
    await a_pool(api, "pool")
    programs.scheduler(plane.kubeconfig, ALONE)
    programs.controller(plane.kubeconfig)
    looks = Looks(api)
    async with observed(api, pool=12) as observer:
        await submit(api, names(12))
        await until(looks.all_bound, 90, programs)
        await leave(api, names(12)[8:])
        await until(looks.nodes(12, tainted=2), 30, programs)
        await submit(api, ["back"])
        await until(looks.nodes(12, tainted=1), DELAY - 5, programs)
        status = (await api.get(NODE_PROVISIONERS, "pool")).status
        assert status.target_size == 11
        await until(looks.nodes(11), DELAY + 20, programs)
        await leave(api, ["back"])
        await until(looks.nodes(11, tainted=1), 30, programs)
        took = await until(looks.nodes(10), DELAY + 20, programs)
        assert took > DELAY - 5
        assert len(observer.made) == 12


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.full)])
async def test_a_burst_and_two_provisioners(
    plane: ControlPlane, api: KubeApi, programs: PoolPrograms, count: int
) -> None:
    """Nodes come, pods are bound, load leaves, nodes go; never more is bought than is needed."""
    large = max(1, count // 16)
    await a_pool(api, "eight", template__gpus__count=8, template__pricePerHour="8", maxSize=large)
    await a_pool(api, "four", template__gpus__count=4, template__pricePerHour="5", maxSize=200)
    programs.scheduler(plane.kubeconfig, ALONE)
    programs.controller(plane.kubeconfig)
    looks = Looks(api)
    async with observed(api, eight=large, four=200) as observer:
        await submit(api, names(count))
        await until(looks.all_bound, 240, programs)
        sizes = {"eight": 8, "four": 4}
        bought = sum(sizes[pool] for pool in observer.made.values())
        assert bought < count + 8, observer.made
        await leave(api, names(count))
        await until(looks.nodes(0), 240, programs)


@pytest.mark.fault
async def test_a_controller_killed_at_random_moments(plane: ControlPlane, api: KubeApi, programs: PoolPrograms) -> None:
    """Five times while the pool grows and shrinks: the end is the same."""
    rng = random.Random(5)
    await a_pool(api, "pool", scaleDownDelay="5s", bootDeadline="1m")
    programs.scheduler(plane.kubeconfig, ALONE)
    looks = Looks(api)
    async with observed(api, pool=9) as observer:
        running = programs.controller(plane.kubeconfig)
        await submit(api, names(9))
        for _ in range(3):
            await asyncio.sleep(rng.uniform(1, 6))
            programs.kill(running)
            running = programs.controller(plane.kubeconfig)
        await until(looks.all_bound, 120, programs)
        await leave(api, names(9)[4:])
        for _ in range(2):
            await asyncio.sleep(rng.uniform(2, 6))
            programs.kill(running)
            running = programs.controller(plane.kubeconfig)
        await until(looks.nodes(5), 90, programs)
        assert len(observer.made) == 9
