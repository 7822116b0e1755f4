"""Karpenter of a simulated world: a simulated Karpenter and kube-scheduler, and agents for the nodes that come."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace as with_fields

from msgspec.structs import replace

from ullage.clock import Clock
from ullage.errors import AlreadyExists, NotFound
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import CRDS, NODES
from ullage.model.device import Inventory
from ullage.model.karpenter import GPU_TAINT, HANDOVER, REQUEST_LABEL, UNCLAIMED
from ullage.model.resources import GPU, MILLI
from ullage.model.units import Instant
from ullage.sim.karpenter.definitions import karpenter_definitions
from ullage.sim.karpenter.karpenter import SimulatedKarpenter
from ullage.sim.karpenter.kube_scheduler import SimulatedKubeScheduler
from ullage.sim.karpenter.solver import InstanceType
from ullage.sim.world.agents import AgentFleet
from ullage.sim.world.spec import KarpenterSpec

MakeApi = Callable[[str], KubeApi]
"""Gives the API of a user of this name."""
_GIB = 1 << 30


async def install_karpenter(api: KubeApi) -> None:
    """Serve Karpenter's kinds."""
    for definition in karpenter_definitions():
        with suppress(AlreadyExists):
            await api.create(CRDS, definition)


def gpu_instance_type(name: str, gpus: int, price: float) -> InstanceType:
    """Instance type with 12 cores and 128Gi for each GPU."""
    amounts = {"cpu": 12_000 * gpus, "memory": 128 * gpus * _GIB * 1000, "pods": 110_000, GPU: gpus * 1000}
    return InstanceType(name=name, resources=amounts, price=price)


def node_pool_manifest(name: str) -> JsonObject:
    """NodePool as we ship it: nodes are closed from their first moment, and removed when they have been empty."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": {"tensor-fusion.ai/gpu-type": "h100", "tensor-fusion.ai/managed": "true"}},
                "spec": {
                    "requirements": [{"key": REQUEST_LABEL, "operator": "Exists"}],
                    "taints": [{"key": GPU_TAINT, "effect": "NoSchedule"}],
                    "startupTaints": [{"key": HANDOVER, "value": UNCLAIMED, "effect": "NoSchedule"}],
                },
            },
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
        },
    }


class WorldKarpenter:
    """Karpenter and kube-scheduler of one world. `run` until cancelled; Karpenter can be stopped and started again."""

    def __init__(
        self,
        spec: KarpenterSpec,
        make_api: MakeApi,
        clock: Clock,
        agents: AgentFleet,
        seed: int,
        *,
        announces: bool = False,
    ) -> None:
        """`announces`: kube-scheduler writes its Events, for onlookers."""
        self._spec = spec
        self._make_api = make_api
        self._clock = clock
        self._agents = agents
        self._seed = seed
        self._announces = announces
        self._available = True
        self._starts = 0
        self._group: asyncio.TaskGroup | None = None
        self._running: asyncio.Task[None] | None = None
        self._karpenter: SimulatedKarpenter | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        api = self._make_api("kube-scheduler")
        scheduler = SimulatedKubeScheduler(api, self._clock, seed=self._seed + 1, announces=self._announces)
        async with asyncio.TaskGroup() as group:
            self._group = group
            self.start()
            group.create_task(scheduler.run(), name="kube-scheduler")

    def start(self) -> None:
        """Start Karpenter, unless it runs."""
        if self._group is None or (self._running is not None and not self._running.done()):
            return
        self._karpenter = SimulatedKarpenter(
            self._make_api("karpenter"),
            self._clock,
            self._spec.types,
            timings=self._spec.timings,
            seed=self._seed + 1000 * self._starts,
            on_node=self._arrived,
        )
        self._starts += 1  # names of NodeClaims are random: two runs must not repeat them
        self.set_available(self._available)
        self._running = self._group.create_task(self._karpenter.run(), name="karpenter")

    def stop(self) -> None:
        """Stop Karpenter. What it had begun is read from its objects when it starts again."""
        if self._running is not None:
            self._running.cancel()

    def set_available(self, available: bool) -> None:
        """Say whether the cloud has capacity left."""
        self._available = available
        if self._karpenter is not None:
            types = self._karpenter.types
            types[:] = [with_fields(one, available=available) for one in types]

    def _arrived(self, node: str, kind: InstanceType) -> None:
        spec = self._spec
        gpus = replace(spec.gpus, count=kind.resources.get(GPU, 0) // MILLI)
        inventory = Inventory(node=node, reported_at=Instant(0.0), devices=gpus.devices(node), kind=gpus.kind)
        asyncio.get_running_loop().call_later(spec.report_seconds, self._agents.install, inventory)
        if spec.boot_labels and self._group is not None:
            self._group.create_task(self._label(node), name=f"labels of {node}")

    async def _label(self, node: str) -> None:
        labels = {"metadata": {"labels": dict(self._spec.boot_labels)}}
        with suppress(NotFound):
            await self._make_api("kubelet").patch(NODES, node, MergePatch(labels))
