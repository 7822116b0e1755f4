"""`ullage controller` on the real control plane, with fake nodes: bought, used, tainted, spared, given back; killed."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.fleet import each
from tests.control.scheduling.programs import ALONE
from tests.kube.crds.bad_provisioners import with_fields
from ullage.cloud.kwok.provider import RECORDS
from ullage.cloud.registry import GROUP
from ullage.errors import NotFound
from ullage.kube.client.api import DELETE_NOW, KubeApi
from ullage.kube.client.resources import CONFIG_MAPS, EVENTS, NODE_PROVISIONERS, NODES, PODS
from ullage.kube.objects.node import KubeNode
from ullage.model.provisioner import DELETION_TAINT, PROVISIONER_LABEL
from ullage.testing.builders import a_pod
from ullage.testing.controlplane import ControlPlane

pytestmark = pytest.mark.real

NS = "default"
DELAY = 10
"""Seconds from a taint to the end of its node."""


@dataclass
class Observer:
    """Looks at the cluster again and again; remembers what was wrong."""

    api: KubeApi
    most: dict[str, int]
    wrong: list[str] = field(default_factory=list)
    marked: dict[str, float] = field(default_factory=dict)
    """When nodes may go that were tainted when they were last seen."""

    async def look(self) -> list[KubeNode]:
        pods = (await self.api.list(PODS)).items
        nodes = (await self.api.list(NODES)).items
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
        moment = time.time()
        self.wrong += [
            f"{name} went {due - moment:.1f} s too early"
            for name, due in self.marked.items()
            if name not in there and moment < due
        ]
        taints = {node.metadata.name: {taint.key: taint.value for taint in node.spec.taints} for node in nodes}
        self.marked = {name: float(said[DELETION_TAINT]) for name, said in taints.items() if DELETION_TAINT in said}
        return list(nodes)

    async def bought(self) -> Counter[str]:
        """Machines ever made, by pool: the cloud keeps a record of every purchase."""
        kept = (await self.api.list(CONFIG_MAPS, selection=RECORDS)).items
        records = [json.loads(one["data"]["record"]) for one in kept]
        return Counter({name: sum(one.get("made", 0) for one in records if one["pool"] == name) for name in self.most})

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
        "scaleUpBatch": "1s",
    }
    spec = with_fields(plain | {key.replace("__", "."): value for key, value in fields.items()})
    await api.create(NODE_PROVISIONERS, {"metadata": {"name": name}, "spec": spec})


async def submit(api: KubeApi, names: list[str], gpus: int = 1, **spec: Any) -> None:
    async def one(name: str) -> None:
        body = a_pod(name, gpus=gpus, schedulerName="gpu-scheduler", terminationGracePeriodSeconds=0, **spec)
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

    async def sizes(self) -> dict[str, tuple[int, int]]:
        """Nodes of each pool, and how many of them are to go."""
        found: dict[str, tuple[int, int]] = {}
        for node in (await self._api.list(NODES)).items:
            pool = node.metadata.labels.get(PROVISIONER_LABEL, "")
            count, going = found.get(pool, (0, 0))
            found[pool] = count + 1, going + any(taint.key == DELETION_TAINT for taint in node.spec.taints)
        return found

    def are(self, **pools: tuple[int, int]) -> Callable[[], Awaitable[bool]]:
        """Whether these pools have so many nodes, and so many that are to go."""

        async def so_many() -> bool:
            sizes = await self.sizes()
            return all(sizes.get(name, (0, 0)) == size for name, size in pools.items())

        return so_many

    async def told(self) -> set[tuple[str, str]]:
        """Kinds of objects there are Events about, with their reasons."""
        return {(one["regarding"]["kind"], one["reason"]) for one in (await self._api.list(EVENTS)).items}


def names(count: int, prefix: str = "p") -> list[str]:
    return [f"{prefix}-{number:03}" for number in range(count)]


def of(pool: str) -> dict[str, Any]:
    return {"nodeSelector": {PROVISIONER_LABEL: pool}}


@pytest.mark.parametrize("nodes", [12, pytest.param(120, marks=pytest.mark.full)])
async def test_scenarios_a_and_c(plane: ControlPlane, api: KubeApi, programs: PoolPrograms, nodes: int) -> None:
    """Of 120 nodes 80 are in use: 20 are tainted, and go after the delay (A). Before it 88 are: 10 of them go (C)."""
    delay = DELAY if nodes < 100 else 60
    kept, back = nodes * 5 // 6, nodes // 15 or 1
    wanted = (nodes * 2 // 3 + back) * 5 // 4
    for name in "ac":
        await a_pool(api, name, maxSize=nodes, scaleDownDelay=f"{delay}s")
    programs.scheduler(plane.kubeconfig, ALONE)
    programs.controller(plane.kubeconfig)  # it stands for election, and leads alone
    looks = Looks(api)
    async with observed(api, a=nodes, c=nodes) as observer:
        for name in "ac":
            await submit(api, names(nodes, name), **of(name))
        await until(looks.all_bound, 180, programs)
        for name in "ac":
            await leave(api, names(nodes, name)[nodes * 2 // 3 :])
        await until(looks.are(a=(nodes, nodes - kept), c=(nodes, nodes - kept)), 60, programs)
        await submit(api, names(back, "back"), **of("c"))
        await until(looks.are(c=(nodes, nodes - wanted)), delay - 2, programs)
        await until(looks.are(a=(kept, 0), c=(wanted, 0)), delay + 60, programs)
        sizes = [(await api.get(NODE_PROVISIONERS, name)).status.target_size for name in "ac"]
        assert sizes == [kept, wanted]
        assert await observer.bought() == {"a": nodes, "c": nodes}
        reasons = {"NodeTaintedForDeletion", "NodeUntainted", "NodeRemoved"}
        assert {("Node", one) for one in reasons} | {("NodeProvisioner", "NodesLaunched")} <= await looks.told()


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.full)])
async def test_a_burst_and_two_provisioners(
    plane: ControlPlane, api: KubeApi, programs: PoolPrograms, count: int
) -> None:
    """Nodes come, pods are bound, load leaves, nodes go; never more is bought than is needed."""
    large, delay = max(1, count // 16), {"scaleDownDelay": "3s"}
    await a_pool(api, "eight", template__gpus__count=8, template__pricePerHour="8", maxSize=large, **delay)
    await a_pool(api, "four", template__gpus__count=4, template__pricePerHour="5", maxSize=200, **delay)
    programs.scheduler(plane.kubeconfig, ALONE)
    programs.controller(plane.kubeconfig, ALONE)
    looks = Looks(api)
    async with observed(api, eight=large, four=200) as observer:
        await submit(api, names(count))
        await until(looks.all_bound, 240, programs)
        bought = await observer.bought()
        assert 8 * bought["eight"] + 4 * bought["four"] < count + 8, bought
        await leave(api, names(count))
        await until(looks.are(eight=(0, 0), four=(0, 0)), 240, programs)
        assert await observer.bought() == bought


@pytest.mark.fault
@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.full)])
async def test_a_controller_killed_at_random_moments(
    plane: ControlPlane, api: KubeApi, programs: PoolPrograms, rounds: int
) -> None:
    """Five times a round, while the pool grows to 9 nodes and shrinks to 5: the end is the same."""
    rng = random.Random(5)
    await a_pool(api, "pool", scaleDownDelay="4s", bootDeadline="2m", maxSize=9)
    programs.scheduler(plane.kubeconfig, ALONE)
    looks = Looks(api)
    running = programs.controller(plane.kubeconfig, ALONE)

    async def killed(times: int) -> None:
        nonlocal running
        for _ in range(times):
            await asyncio.sleep(rng.uniform(0.5, 4))
            programs.kill(running)
            running = programs.controller(plane.kubeconfig, ALONE)

    async with observed(api, pool=9) as observer:
        await submit(api, names(4))
        for turn in range(rounds):
            guests = names(5, f"guest-{turn}")
            await submit(api, guests)
            await killed(3)
            await until(looks.all_bound, 120, programs)
            await leave(api, guests)
            await killed(2)
            await until(looks.are(pool=(5, 0)), 90, programs)
            assert await observer.bought() == {"pool": 9 + 4 * turn}


@pytest.mark.full  # every run has it in virtual time: test_trouble_stories.py
async def test_a_node_deleted_by_hand_is_no_failure(plane: ControlPlane, api: KubeApi, programs: PoolPrograms) -> None:
    """`kubectl delete node`: its machine is kept for a while, then given back and replaced; nothing is backed off."""
    grace = 15
    await a_pool(api, "pool", minSize=2, minGPUUtilizationPercent=0, bootDeadline=f"{grace}s")
    programs.controller(plane.kubeconfig, ALONE)
    looks = Looks(api)
    async with observed(api, pool=3) as observer:
        await until(looks.are(pool=(2, 0)), 60, programs)
        await asyncio.sleep(grace + 5)
        await api.delete(NODES, sorted(node.metadata.name for node in (await api.list(NODES)).items)[0])
        await asyncio.sleep(5)
        status = (await api.get(NODE_PROVISIONERS, "pool")).status
        assert (status.current_size, status.back_off) == (2, None), "the machine is still there"
        await until(looks.are(pool=(2, 0)), grace + 60, programs)
        assert await observer.bought() == {"pool": 3}
        assert (await api.get(NODE_PROVISIONERS, "pool")).status.back_off is None
        reasons = {reason for kind, reason in await looks.told() if kind == "NodeProvisioner"}
        assert ("InstanceWithoutNode" in reasons, "NodeFailedToRegister" in reasons) == (True, False)


BAD_CLOUD = '''
import asyncio

class BadCloud:
    """Hangs when it is asked for nodes of one pool, and raises what it must not for any other."""

    name = "bad"
    staleness = 0.0

    async def create(self, request):
        if request.pool.name == "hangs":
            await asyncio.Event().wait()
        return {}["Reservations"]

    async def delete(self, ids):
        return None

    async def list(self, pools):
        return []

    async def templates(self, pool):
        return []

    async def run(self):
        raise OSError("no route to host")

    async def close(self):
        return None

def make(surroundings):
    return BadCloud()
'''


def a_package(folder: Path) -> None:
    """A provider of another package, as if it were installed."""
    (folder / "bad_cloud.py").write_text(BAD_CLOUD)
    about = folder / "bad_cloud-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-cloud\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\nbad = bad_cloud:make\n")


async def test_one_bad_provider_costs_other_pools_nothing(
    plane: ControlPlane, api: KubeApi, programs: PoolPrograms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_package(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name in ("hangs", "raises"):
        await a_pool(api, name, provider={"name": "bad"}, minSize=1)
    programs.controller(plane.kubeconfig, ALONE)

    async def is_blocked() -> bool:
        conditions = (await api.get(NODE_PROVISIONERS, "raises")).status.conditions
        return ("CapacityBlocked", "OutcomeUnknown") in {(one.type, one.reason) for one in conditions}

    await until(is_blocked, 60, programs)
    await a_pool(api, "good", minSize=2)
    took = await until(Looks(api).are(good=(2, 0)), 60, programs)
    assert took < 30
    purchase = (await api.get(NODE_PROVISIONERS, "hangs")).status.purchase
    assert purchase is not None, "it is still being asked for"
