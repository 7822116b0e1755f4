"""Agents of simulated nodes: what they say, when a GPU dies, and that they cost nothing while nothing happens."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ullage.kube.client.api import DELETE_NOW, Binding, KubeApi
from ullage.kube.client.resources import EVENTS, GPU_NODE_STATUSES, NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.install import install
from ullage.kube.read.gpu import read_inventory
from ullage.model.device import DeviceHealth, GpuNodeKind, Inventory
from ullage.model.provisioner import GpuTemplate
from ullage.model.resources import GPU
from ullage.model.units import Bytes, Instant
from ullage.sim.agents.fleet import SimulatedAgents, SimulatedAgentSettings
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_pod

pytestmark = pytest.mark.story

NS = "default"
GIB = 1 << 30
TWO_ISLANDS = GpuTemplate(model="NVIDIA A100", count=8, memory=Bytes(80 * GIB), islands=2, bandwidth=300)


@dataclass
class Yard:
    """A server, and agents for its nodes."""

    server: SimulatedApiServer
    api: KubeApi
    agents: SimulatedAgents
    gpus: GpuTemplate = TWO_ISLANDS

    async def node(self, name: str) -> None:
        amounts = {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: "8"}
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
        await self.api.create(NODES, {"metadata": {"name": name}, "status": status})
        self.agents.install(
            Inventory(node=name, reported_at=Instant(0), devices=self.gpus.devices(name), kind=self.gpus.kind)
        )
        await asyncio.sleep(5)

    async def pod_on(self, node: str, name: str, *gpus: int) -> None:
        await self.api.create(PODS, a_pod(name, gpus=len(gpus), terminationGracePeriodSeconds=0), NS)
        notes = {"gpu.scheduling/allocated": f"{node}:{','.join(map(str, gpus))}"}
        await self.api.bind(name, NS, Binding(node, annotations=notes))
        await asyncio.sleep(5)

    async def said(self, node: str) -> Inventory:
        return read_inventory(await self.api.get(GPU_NODE_STATUSES, node))

    async def allocatable(self, node: str) -> str:
        return str((await self.api.get(NODES, node)).status.allocatable[GPU])

    async def events(self) -> list[dict[str, Any]]:
        return [dict(one) for one in (await self.api.list(EVENTS)).items]


@asynccontextmanager
async def yard(heartbeats: bool) -> AsyncIterator[Yard]:
    clock = loop_clock()
    server = SimulatedApiServer(clock, seed=1)
    api = RestApi(InMemoryTransport(server), rng=random.Random(1))
    await install(api)
    agents = SimulatedAgents(api, clock, SimulatedAgentSettings(heartbeats=heartbeats))
    running = asyncio.ensure_future(agents.run())
    try:
        yield Yard(server, api, agents)
    finally:
        running.cancel()
        ended = await asyncio.gather(running, return_exceptions=True)
    assert isinstance(ended[0], asyncio.CancelledError), ended


def play(story: Callable[[Yard], Awaitable[None]], *, heartbeats: bool = False) -> None:
    async def live() -> None:
        async with yard(heartbeats) as around:
            await story(around)

    run_virtual(live())


def test_a_node_says_what_its_template_promised() -> None:
    async def story(around: Yard) -> None:
        await around.node("a")
        said = await around.said("a")
        promised = TWO_ISLANDS.devices("a")
        assert [(d.id, d.model, d.memory, d.bandwidth, d.peers) for d in said.devices] == [
            (d.id, d.model, d.memory, d.bandwidth, d.peers) for d in promised
        ]
        assert [d.island for d in said.devices] == ["nvlink-0"] * 4 + ["nvlink-4"] * 4
        assert said.kind is GpuNodeKind.LEASED
        node = await around.api.get(NODES, "a")
        assert node.metadata.labels["gpu.scheduling/node-kind"] == "leased"
        assert [taint.key for taint in node.spec.taints] == ["gpu.scheduling/leased"]

    play(story)


def test_a_dead_gpu_is_told_to_its_pod_and_counted_until_that_leaves() -> None:
    async def story(around: Yard) -> None:
        await around.node("a")
        await around.pod_on("a", "train", 2, 3)
        around.agents.set_health("a", 3, DeviceHealth.UNHEALTHY)
        await asyncio.sleep(5)
        said = await around.said("a")
        assert [d.id for d in said.devices if d.health is DeviceHealth.UNHEALTHY] == [3]
        told = [one for one in await around.events() if one["reason"] == "GpuUnhealthy"]
        assert [(one["regarding"]["kind"], one["regarding"]["name"]) for one in told] == [("Pod", "train")]
        assert "GPU 3" in told[0]["note"]
        assert await around.allocatable("a") == "8"
        await around.api.delete(PODS, "train", NS, how=DELETE_NOW)
        await asyncio.sleep(5)
        assert await around.allocatable("a") == "7"

    play(story)


def test_a_repaired_gpu_is_healthy_again() -> None:
    async def story(around: Yard) -> None:
        await around.node("a")
        around.agents.set_health("a", 0, DeviceHealth.UNHEALTHY)
        await asyncio.sleep(5)
        assert await around.allocatable("a") == "7"
        around.agents.set_health("a", 0, DeviceHealth.HEALTHY)
        await asyncio.sleep(5)
        assert all(d.health is DeviceHealth.HEALTHY for d in (await around.said("a")).devices)
        assert await around.allocatable("a") == "8"

    play(story)


def test_what_is_said_stays_fresh_until_the_agent_falls_silent() -> None:
    async def story(around: Yard) -> None:
        await around.node("a")
        clock = loop_clock()
        assert (await around.said("a")).reported_at > clock.now() + 1e9
        around.agents.silence("a")
        await asyncio.sleep(100)
        assert 90 < clock.now() - (await around.said("a")).reported_at < 110
        around.agents.resume("a")
        await asyncio.sleep(5)
        assert (await around.said("a")).reported_at > clock.now()

    play(story)


def test_an_idle_fleet_writes_nothing() -> None:
    async def story(around: Yard) -> None:
        await around.node("a")
        await around.node("b")
        before = around.server.revision
        await asyncio.sleep(86_400)
        assert around.server.revision == before

    play(story)


def test_with_heartbeats_reports_have_the_time_they_were_made() -> None:
    async def story(around: Yard) -> None:
        await around.node("a")
        first = (await around.said("a")).reported_at
        await asyncio.sleep(120)
        assert (await around.said("a")).reported_at >= first + 90
        around.agents.silence("a")
        last = (await around.said("a")).reported_at
        await asyncio.sleep(120)
        assert (await around.said("a")).reported_at == last

    play(story, heartbeats=True)


def test_the_agent_goes_with_its_node() -> None:
    async def story(around: Yard) -> None:
        await around.node("a")
        await around.api.delete(NODES, "a", how=DELETE_NOW)
        around.agents.remove("a")
        await asyncio.sleep(5)
        with pytest.raises(KeyError):
            around.agents.set_health("a", 0, DeviceHealth.UNHEALTHY)
        assert not (await around.api.list(GPU_NODE_STATUSES)).items

    play(story)


@pytest.mark.parametrize(
    ("gpus", "islands"),
    [
        pytest.param(GpuTemplate(model="H100", count=8, bandwidth=450), ["nvlink-0"] * 8, id="one-island-by-switches"),
        pytest.param(
            GpuTemplate(model="H100 NVL", count=4, islands=2, bandwidth=300),
            ["nvlink-0", "nvlink-0", "nvlink-2", "nvlink-2"],
            id="bridged-pairs",
        ),
        pytest.param(GpuTemplate(model="L4", count=4, islands=4), [""] * 4, id="each-alone"),
        pytest.param(GpuTemplate(model="L4", count=1), [""], id="a-single-one"),
    ],
)
def test_boards_are_wired_as_their_templates_say(gpus: GpuTemplate, islands: list[str]) -> None:
    async def story(around: Yard) -> None:
        around.gpus = gpus
        await around.node("a")
        said = await around.said("a")
        assert [device.island for device in said.devices] == islands
        assert {device.bandwidth for device in said.devices} == {gpus.bandwidth if any(islands) else 0}

    play(story)
