"""GPU nodes with two NVLink islands of four, as an agent would report them; pods and claims that want them."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec.structs import replace

from ullage.clock import Clock
from ullage.errors import ApiError
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import GPU_CLAIMS, GPU_NODE_STATUSES, NODES, POD_GROUPS, PODS
from ullage.kube.write.gpu import apply_node, apply_status, node_report
from ullage.model.allocation import CLAIM
from ullage.model.device import Device, Inventory, MigInstance
from ullage.model.units import Bytes, Instant
from ullage.testing.builders import a_node, a_pod

AGENT = "test-agent"
GIB = 1 << 30
SCHEDULER = "gpu-scheduler"
REPORT_SECONDS = 30.0
NOTHING: Mapping[str, Any] = {}
Hardware = Mapping[str, tuple[Device, ...]]
"""GPUs by node, where they are others than `devices`."""


def devices(node: str) -> tuple[Device, ...]:
    return tuple(
        Device(
            id=gpu,
            uuid=f"GPU-{node}-{gpu}",
            model="NVIDIA H100 80GB HBM3",
            memory=Bytes(80 * GIB),
            island=f"nvlink-{gpu // 4}",
            bandwidth=450,
            peers=tuple(peer for peer in range(8) if peer // 4 == gpu // 4 and peer != gpu),
        )
        for gpu in range(8)
    )


def split(node: str, *, gpus: Iterable[int] = range(8), into: int = 7, made: str = "a") -> tuple[Device, ...]:
    """The same, with these GPUs split into MIG instances. Instances that were made again are `made` another way."""
    parts = set(gpus)
    return tuple(
        device
        if device.id not in parts
        else replace(
            device,
            mig=tuple(
                MigInstance(f"MIG-{node}-{device.id}-{made}{part}", "1g.10gb", Bytes(10 * GIB)) for part in range(into)
            ),
        )
        for device in devices(node)
    )


async def report(
    api: KubeApi, node: str, clock: Clock, there: tuple[Device, ...] | None = None, *, ahead: float = 0.0
) -> None:
    """What the agent of a node says, now; its clock may be ahead of everybody else's."""
    made = await api.patch(GPU_NODE_STATUSES, node, apply_node(node, AGENT))
    status = node_report(Inventory(node=node, reported_at=Instant(clock.now() + ahead), devices=there or devices(node)))
    await api.patch(GPU_NODE_STATUSES, node, apply_status(made.metadata, status, AGENT), subresource="status")


async def keep_reporting(api: KubeApi, nodes: Iterable[str], clock: Clock, hardware: Hardware = NOTHING) -> None:
    """Agents: every half minute, for ever, whatever happens to their API server."""

    async def tell(name: str) -> None:
        with suppress(ApiError):
            await report(api, name, clock, hardware.get(name))

    names = list(nodes)
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        await each(names, tell)


@asynccontextmanager
async def reporting(
    api: KubeApi, nodes: Iterable[str], clock: Clock, hardware: Hardware = NOTHING
) -> AsyncIterator[None]:
    """Agents at work inside the block. One that failed otherwise than by its API server fails the test."""
    agents = asyncio.ensure_future(keep_reporting(api, nodes, clock, hardware))
    try:
        yield
    finally:
        agents.cancel()
        with suppress(asyncio.CancelledError):
            await agents


async def each(items: Iterable[Any], work: Any, *, at_once: int = 32) -> None:
    """Do it for each, some at a time."""
    waiting = iter(list(items))

    async def worker() -> None:
        for item in waiting:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())


async def add_nodes(api: KubeApi, names: Iterable[str], clock: Clock, **annotations: str) -> None:
    """Leased GPU nodes, with their inventories."""

    async def add(name: str) -> None:
        amounts = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": "8"}
        node = a_node(name, labels={"gpu.scheduling/node-kind": "leased"}, allocatable=amounts)
        node["metadata"]["annotations"] = dict(annotations)
        await api.create(NODES, node)
        await report(api, name, clock)

    await each(names, add)


async def submit(
    api: KubeApi,
    namespace: str,
    name: str,
    gpus: int,
    *,
    requested: int | None = None,
    pod: Mapping[str, Any] = NOTHING,
    labels: Mapping[str, str] = NOTHING,
    **spec: Any,
) -> None:
    """A claim and the pod that names it, and requests as many GPUs unless it is said otherwise.

    `pod` is more of the pod's spec, the rest is of the claim's.
    """
    body = {"metadata": {"name": name}, "spec": {"devices": {"count": gpus, **spec.pop("devices", {})}, **spec}}
    await api.create(GPU_CLAIMS, body, namespace)
    more = {"schedulerName": SCHEDULER, "terminationGracePeriodSeconds": 0, **pod}
    counted = gpus if requested is None else requested
    await api.create(PODS, a_pod(name, labels=labels, annotations={CLAIM: name}, gpus=counted, **more), namespace)


async def submit_gang(
    api: KubeApi,
    namespace: str,
    name: str,
    *,
    members: int,
    gpus: int,
    timeout: int = 300,
    pod: Mapping[str, Any] = NOTHING,
) -> None:
    """A PodGroup, and as many claims and pods as it needs."""
    group = {"metadata": {"name": name}, "spec": {"minMember": members, "scheduleTimeoutSeconds": timeout}}
    await api.create(POD_GROUPS, group, namespace)
    await each(range(members), lambda number: submit(api, namespace, f"{name}-{number}", gpus, pod=pod, gangRef=name))


async def all_bound(api: KubeApi, resource: Resource[Any] = PODS) -> bool:
    return all(pod.spec.node_name for pod in (await api.list(resource)).items)
