"""A real cluster whose nodes a real Karpenter makes (kwok provider): instance types, NodePool, agents, waiting."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ullage.clock import WallClock
from ullage.decide.karpenter.retry import read_failure
from ullage.errors import AlreadyExists, ApiError, NotFound
from ullage.kube.client.api import DELETE_NOW, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import (
    GPU_CLAIMS,
    NAMESPACES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
)
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import install
from ullage.kube.read import read_pod
from ullage.kube.read.karpenter import read_handover_node, read_node_claim, read_smart_pod
from ullage.kube.write.smart_pod import written_amount
from ullage.model.device import KIND_LABEL, Inventory
from ullage.model.karpenter import HANDOVER, HandoverNode, SmartPod
from ullage.model.karpenter_failure import RecordedFailure
from ullage.model.lease import LEASE_NAMESPACE
from ullage.model.provisioner import GpuTemplate
from ullage.model.resources import GPU
from ullage.model.units import Bytes, Instant
from ullage.sim.agents.fleet import SimulatedAgents
from ullage.sim.karpenter.solver import InstanceType
from ullage.testing.builders import a_namespace, a_pod
from ullage.testing.controlplane import ControlPlaneSpec
from ullage.testing.controlplane.versions import GoProgram

DEPLOY = Path(__file__).parents[2] / "deploy" / "karpenter"
GIB = 1 << 30
H100 = "NVIDIA H100 80GB HBM3"
SMART_NAMESPACE = "tensor-fusion-system"
NAMESPACE = "default"
RIVALS = "example.com/rivals"
"""Label that every new node gets, and that rivals select: no NodePool knows it, so Karpenter never buys for them."""
NODE_CLASSES = Resource[JsonObject]("karpenter.kwok.sh", "v1alpha1", "kwoknodeclasses", "KWOKNodeClass", False, dict)
SETTINGS: JsonObject = {
    "karpenter": {
        "enabled": True,
        "nodePools": {"h100": {"nodePool": "gpu-h100", "gpuModel": H100, "gpuMemory": "80Gi", "gpusPerNode": 8}},
    }
}


def instance_type(name: str, gpus: int, price: float, **more: Any) -> InstanceType:
    amounts = {"cpu": 12_000 * gpus, "memory": 96 * gpus * GIB * 1000, "pods": 110_000, GPU: gpus * 1000}
    return InstanceType(name=name, resources=amounts | more.pop("resources", {}), price=price, **more)


G1, G8 = instance_type("g1-gpu1", 1, 1.0), instance_type("g8-gpu8", 8, 7.0)


def claim_pod_manifest(
    name: str, count: int = 1, *, counted: bool = False, cpu: str = "2", **claim: Any
) -> tuple[JsonObject, JsonObject]:
    """A claim and its pod, as the webhook leaves it; `counted`: its device plugin has to know."""
    spec = {"devices": {"count": count} | claim.pop("devices", {})} | claim
    body = a_pod(
        name,
        annotations={"gpu.scheduling/claim": name},
        gpus=count if counted else 0,
        requests={"cpu": cpu, "memory": "4Gi"},
        schedulerName="gpu-scheduler",
        nodeSelector={KIND_LABEL: "counted" if counted else "leased"},
        tolerations=[
            {"key": "gpu.scheduling/leased", "operator": "Exists"},
            {"key": "nvidia.com/gpu", "operator": "Exists"},
        ],
    )
    return {"metadata": {"name": name}, "spec": spec}, body


def rival_manifest(name: str = "rival") -> JsonObject:
    """A pod of the default scheduler that wants a GPU of any node there is, and never makes Karpenter buy one."""
    return a_pod(
        name,
        gpus=1,
        schedulerName="default-scheduler",
        nodeSelector={RIVALS: "welcome"},
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
    )


def karpenter_spec(folder: Path, types: Sequence[InstanceType] = (G1, G8)) -> ControlPlaneSpec:
    """Control plane with kube-scheduler, KWOK and Karpenter, whose cloud has these instance types."""
    path = folder / "types.json"
    path.write_text(json.dumps([_written(one) for one in types]))
    return ControlPlaneSpec(
        components=(GoProgram.CONTROLLER_MANAGER, GoProgram.SCHEDULER, GoProgram.KWOK, GoProgram.KARPENTER),
        extra_flags={GoProgram.KARPENTER: [f"--instance-types-file-path={path}"]},
    )


def _written(one: InstanceType) -> JsonObject:
    where = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [one.zone]},
    ]
    return {
        "name": one.name,
        "offerings": [{"Price": one.price, "Available": one.available, "Requirements": where}],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {name: written_amount(amount) for name, amount in one.resources.items()},
    }


def kwok_node_pool() -> JsonObject:
    """The NodePool example that is shipped for KWOK."""
    pool: JsonObject = yaml.safe_load((DEPLOY / "nodepool-kwok.yaml").read_text())
    return pool


@dataclass
class KarpenterCluster:
    """A real cluster whose nodes Karpenter makes, and an agent for each of them."""

    api: KubeApi
    agents: SimulatedAgents
    start_agent: Callable[[str, int], None] | None = None
    """Starts the agent of a new node with so many GPUs, in place of a simulated one."""
    claims_made: set[str] = field(default_factory=set)
    """NodeClaims that were ever there."""
    reported: dict[str, float] = field(default_factory=dict)
    """Nodes whose agent was started, with the time of the real clock."""

    async def claim_pod(self, name: str, count: int = 1, **claim: Any) -> None:
        wanted, body = claim_pod_manifest(name, count, **claim)
        await self.api.create(GPU_CLAIMS, wanted, NAMESPACE)
        await self.api.create(PODS, body, NAMESPACE)

    async def node_of(self, name: str) -> str:
        return (await self.api.get(PODS, name, NAMESPACE)).spec.node_name

    async def is_on_its_own_node(self, name: str) -> bool:
        """True if the pod is bound to the node that was bought for the request it was handed over for."""
        pod = read_pod(await self.api.get(PODS, name, NAMESPACE))
        requests = [one.value for one in pod.shape.tolerations if one.key == HANDOVER]
        bought = [one.name for one in await self.nodes() if one.request in requests]
        return [pod.node] == bought

    async def smart_pods(self) -> list[SmartPod]:
        return [read_smart_pod(one) for one in (await self.api.list(PODS, SMART_NAMESPACE)).items]

    async def nodes(self) -> list[HandoverNode]:
        return [read_handover_node(one) for one in (await self.api.list(NODES)).items]

    async def until(self, holds: Callable[[], Awaitable[Any]], seconds: float = 120.0, *, every: float = 0.1) -> None:
        ends = time.monotonic() + seconds
        while not await holds():
            if time.monotonic() > ends:
                said = [(one.key.name, one.state, one.node) for one in await self.smart_pods()]
                raise TimeoutError(f"not within {seconds:g} s: {said}, {await self.nodes()}")
            await asyncio.sleep(every)

    async def bound(self, *names: str) -> None:
        """Until all of them have a node."""

        async def all_bound() -> bool:
            return all([await self.node_of(name) for name in names])

        await self.until(all_bound)

    async def settled(self) -> None:
        """Until no smart pod is left and every node is open."""

        async def open_and_clean() -> bool:
            return not await self.smart_pods() and all(one.closed_for is None for one in await self.nodes())

        await self.until(open_and_clean, 60.0)

    async def claimed(self) -> None:
        """Until Karpenter has made a NodeClaim."""

        async def made() -> bool:
            return bool(self.claims_made)

        await self.until(made)

    async def failure(self, name: str) -> RecordedFailure:
        """Until a waiting pod says why it got no node."""

        async def said() -> bool:
            return bool(read_pod(await self.api.get(PODS, name, NAMESPACE)).capacity_failure)

        await self.until(said)
        found = read_failure(read_pod(await self.api.get(PODS, name, NAMESPACE)).capacity_failure)
        if found is None:
            raise ValueError(f"the capacity failure of pod {name} cannot be read")
        return found

    async def watch_nodes(self) -> None:
        """Start an agent for every node that comes, and label it for rivals."""
        while True:
            with suppress(ApiError):
                self.claims_made |= {one.metadata.name for one in (await self.api.list(NODE_CLAIMS)).items}
                for node in (await self.api.list(NODES)).items:
                    await self._arrived(node.metadata.name, node.status.allocatable.get(GPU, ""))
            await asyncio.sleep(0.1)

    async def _arrived(self, name: str, gpus: str) -> None:
        if name in self.reported or not gpus.isdecimal():
            return
        await self.api.patch(NODES, name, MergePatch({"metadata": {"labels": {RIVALS: "welcome"}}}))
        self.reported[name] = time.monotonic()
        if self.start_agent is not None:
            self.start_agent(name, int(gpus))
        else:
            self.install_agent(name, int(gpus))

    def install_agent(self, name: str, gpus: int) -> None:
        """Let a simulated agent report so many GPUs of a node."""
        devices = GpuTemplate(model=H100, count=gpus, memory=Bytes(80 * GIB)).devices(name)
        self.agents.install(Inventory(node=name, reported_at=Instant(0.0), devices=devices))


@asynccontextmanager
async def karpenter_cluster(
    api: KubeApi, *, node_pool: JsonObject | None = None, registration_delay: str = "2s"
) -> AsyncIterator[KarpenterCluster]:
    """NodePool, node class and all our kinds, for the block. What an earlier block left is taken away first.

    Not at the block's end: Karpenter takes most of a minute, and after the last block the whole cluster goes.
    """
    await install(api, (*OURS, POD_GROUP))
    await empty_cluster(api)
    pool = node_pool or kwok_node_pool()
    node_class = {"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": registration_delay}}
    wanted: list[tuple[Resource[Any], JsonObject]] = [
        (NAMESPACES, a_namespace(LEASE_NAMESPACE)),
        (PRIORITY_CLASSES, yaml.safe_load((DEPLOY / "priorityclass.yaml").read_text())),
        (NODE_CLASSES, node_class),
        (NODE_POOLS, pool),
    ]
    for resource, body in wanted:
        with suppress(AlreadyExists):
            await api.create(resource, body)
    cluster = KarpenterCluster(api, SimulatedAgents(api, WallClock()))
    beside = [asyncio.create_task(cluster.agents.run()), asyncio.create_task(cluster.watch_nodes())]
    try:
        yield cluster
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)


async def empty_cluster(api: KubeApi) -> None:
    """Delete pods first, then NodePools: Karpenter takes its nodes away with them. Our programs are gone by now."""
    await _all_registered(api)
    for pod in (await api.list(PODS)).items:
        with suppress(NotFound):
            await api.delete(PODS, pod.metadata.name, pod.metadata.namespace, how=DELETE_NOW)
    for claim in (await api.list(GPU_CLAIMS)).items:
        name, namespace = claim.metadata.name, claim.metadata.namespace
        with suppress(NotFound):  # the controller that removes finalizers is gone
            await api.delete(GPU_CLAIMS, name, namespace)
            await api.patch(GPU_CLAIMS, name, MergePatch({"metadata": {"finalizers": None}}), namespace)
    for pool in (await api.list(NODE_POOLS)).items:
        with suppress(NotFound):
            await api.delete(NODE_POOLS, pool.metadata.name)
    for _ in range(450):
        left = [len((await api.list(kind)).items) for kind in (NODE_CLAIMS, NODES, GPU_CLAIMS)]
        if not any(left):
            return
        await asyncio.sleep(0.2)
    raise TimeoutError(f"NodeClaims, Nodes and GpuClaims stay: {left}")


async def _all_registered(api: KubeApi, seconds: float = 30.0) -> None:
    """Wait until every NodeClaim has its Node: of one deleted earlier, the kwok provider leaves a Node for ever."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        claims = [read_node_claim(one) for one in (await api.list(NODE_CLAIMS)).items]
        if all(one.holds("Registered") for one in claims):
            return
        await asyncio.sleep(0.1)
