"""Karpenter of a simulated world: a simulated Karpenter and kube-scheduler, and agents for the nodes that come."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from ullage.clock import Clock
from ullage.errors import AlreadyExists, NotFound
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import CRDS, NODES
from ullage.model.device import Inventory
from ullage.model.resources import GPU, MILLI
from ullage.sim.karpenter.definitions import karpenter_definitions
from ullage.sim.karpenter.karpenter import SimulatedKarpenter
from ullage.sim.karpenter.kube_scheduler import SimulatedKubeScheduler
from ullage.sim.karpenter.solver import InstanceType
from ullage.sim.world.agents import AgentFleet
from ullage.sim.world.spec import KarpenterSpec

MakeApi = Callable[[str], KubeApi]
"""Gives the API of a user of this name."""


async def install_karpenter(api: KubeApi) -> None:
    """Serve Karpenter's kinds."""
    for definition in karpenter_definitions():
        with suppress(AlreadyExists):
            await api.create(CRDS, definition)


async def run_karpenter(spec: KarpenterSpec, make_api: MakeApi, clock: Clock, agents: AgentFleet, seed: int) -> None:
    """Run Karpenter and kube-scheduler until cancelled."""
    booting: set[asyncio.Task[None]] = set()

    async def label(node: str) -> None:
        with suppress(NotFound):
            await make_api("kubelet").patch(NODES, node, MergePatch({"metadata": {"labels": dict(spec.boot_labels)}}))

    def arrived(node: str, kind: InstanceType) -> None:
        gpus = replace(spec.gpus, count=kind.resources.get(GPU, 0) // MILLI)
        inventory = Inventory(node=node, reported_at=0.0, devices=gpus.devices(node), kind=gpus.kind)
        asyncio.get_running_loop().call_later(spec.report_seconds, agents.install, inventory)
        if spec.boot_labels:
            task = asyncio.ensure_future(label(node))
            booting.add(task)
            task.add_done_callback(booting.discard)

    karpenter = SimulatedKarpenter(
        make_api("karpenter"), clock, spec.types, timings=spec.timings, seed=seed, on_node=arrived
    )
    scheduler = SimulatedKubeScheduler(make_api("kube-scheduler"), clock, seed=seed + 1)
    async with asyncio.TaskGroup() as group:
        group.create_task(karpenter.run(), name="karpenter")
        group.create_task(scheduler.run(), name="kube-scheduler")
