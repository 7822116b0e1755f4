"""A lease sweeper with its informers, and short ways to make the things it looks at."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ullage.act.lease_release import LeaseReleaser
from ullage.act.leases import LeaseClient, LeaseHolder, LeaseRequest, LeasesAcquired
from ullage.clock import Clock
from ullage.control.leases.loop import LeaseGarbageCollector, LeaseReleased, gpu_leases
from ullage.decide.leases.release import LeaseGcPolicy
from ullage.kube.client.api import Binding, KubeApi, MergePatch
from ullage.kube.client.resources import GPU_NODE_STATUSES, LEASES, NODES, PODS
from ullage.kube.crds.install import install
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.read import read_node, read_pod
from ullage.kube.read.gpu import read_inventory
from ullage.kube.write.gpu import apply_node, apply_status, node_report
from ullage.model.allocation import ALLOCATED
from ullage.model.device import MILLI_GPU, Device, Inventory, observed_inventory
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Bytes, Instant
from ullage.testing.builders import a_node, a_pod
from ullage.watch.informer import Informer, InformerSpec, run_all


@dataclass
class Scene:
    """One namespace of pods and Leases, one node named after it, and what was freed."""

    api: KubeApi
    ns: str
    clock: Clock
    freed: list[LeaseReleased] = field(default_factory=list)

    @property
    def node(self) -> str:
        return f"{self.ns}-node"

    @property
    def book(self) -> LeaseClient:
        return LeaseClient(self.api, self.ns, self.clock)

    async def prepare(self) -> None:
        """A node, and a server that knows our kinds."""
        await install(self.api)
        await self.api.create(NODES, a_node(self.node, gpus=8))

    async def pod(self, name: str) -> LeaseHolder:
        made = await self.api.create(PODS, a_pod(name), self.ns)
        return LeaseHolder(ObjectKey(self.ns, name), made.metadata.uid)

    async def hold(self, holder: LeaseHolder, *devices: int, milli: int = MILLI_GPU) -> None:
        assert isinstance(await self.book.reserve(holder, LeaseRequest(self.node, devices, milli)), LeasesAcquired)

    async def bind(
        self, holder: LeaseHolder, *devices: int, node: str = "", allocated: str = "", version: str = ""
    ) -> None:
        where = node or self.node
        text = allocated or f"{where}:{','.join(map(str, devices))}"
        notes = {ALLOCATED: text} if devices or allocated else {}
        binding = Binding(where, uid=holder.uid, resource_version=version, annotations=notes)
        await self.api.bind(holder.pod.name, self.ns, binding)

    async def running(self, name: str, *devices: int, milli: int = MILLI_GPU) -> LeaseHolder:
        """A pod that holds its GPUs and is bound to them."""
        holder = await self.pod(name)
        await self.hold(holder, *devices, milli=milli)
        await self.bind(holder, *devices)
        return holder

    async def finish(self, holder: LeaseHolder, phase: str = "Succeeded") -> None:
        patch = MergePatch({"status": {"phase": phase}})
        await self.api.patch(PODS, holder.pod.name, patch, self.ns, subresource="status")

    async def report(self, *in_use_by: str, device: int = 0, ahead: float = 0.0) -> None:
        """The node's agent saw processes of these pods on a GPU. Its clock may be ahead of ours."""
        gpu = Device(id=device, uuid="GPU-0", model="H100", memory=Bytes(1 << 30), in_use_by=in_use_by)
        inventory = Inventory(node=self.node, reported_at=Instant(self.clock.now() + ahead), devices=(gpu,))
        await self.api.patch(GPU_NODE_STATUSES, self.node, apply_node(self.node, "test"))
        status = apply_status(ObjectMeta(name=self.node), node_report(inventory), "test")
        await self.api.patch(GPU_NODE_STATUSES, self.node, status, subresource="status")

    async def leases(self) -> dict[str, dict[str, Any]]:
        """Shares, or the holder, by device."""
        found = (await self.api.list(LEASES, self.ns)).items
        return {lease.metadata.name.rpartition("-")[2]: dict(lease.metadata.annotations) for lease in found}

    async def held(self) -> set[int]:
        return {int(device) for device in await self.leases()}

    @asynccontextmanager
    async def swept(
        self,
        policy: LeaseGcPolicy = LeaseGcPolicy(),  # noqa: B008 - frozen
        *,
        through: KubeApi | None = None,
        seed: int = 1,
    ) -> AsyncIterator[LeaseGarbageCollector]:
        """A sweeper runs during the block."""
        api = through or self.api
        sweeper = LeaseGarbageCollector(
            LeaseReleaser(api, self.ns), self.clock, policy=policy, on_released=self.freed.append
        )
        interests: list[InformerSpec[Any, Any]] = [
            InformerSpec(PODS, read_pod),
            InformerSpec(NODES, read_node),
            InformerSpec(GPU_NODE_STATUSES, read_inventory, observed=observed_inventory),
            gpu_leases(self.ns),
        ]
        rng = random.Random(seed)
        informers = [Informer(api, one, sweeper.observe, rng=rng, clock=self.clock) for one in interests]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_all(*informers)), group.create_task(sweeper.run())]
            yield sweeper
            for task in tasks:
                task.cancel()
