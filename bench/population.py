"""A large cluster's worth of nodes and pods on a real API server, as plain as production writes them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ullage.clock import Instant, WallClock
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import GPU_NODE_STATUSES, NODES, PODS
from ullage.kube.write.gpu import apply_node, apply_status, node_report
from ullage.model.device import Device, Inventory
from ullage.model.units import Bytes
from ullage.testing.builders import a_node

AT_ONCE = 64
GPUS_PER_NODE = 8

T = TypeVar("T")


def a_gpu_node(number: int) -> dict[str, Any]:
    """Eight GPUs, labels and conditions as a cloud's node has them."""
    name = f"gpu-node-{number:05d}"
    amounts = {"cpu": "96", "memory": "768Gi", "pods": "110", "ephemeral-storage": "900Gi", "nvidia.com/gpu": "8"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "topology.kubernetes.io/region": "region-1",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    }
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions = [
        {"type": kind, "status": str(kind == "Ready"), "reason": f"Kubelet{kind}", "message": f"kubelet says {kind}"}
        for kind in kinds
    ]
    images = [{"names": [f"example.test/image-{i}:v1"], "sizeBytes": 10**8 + i} for i in range(20)]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def a_training_pod(number: int) -> dict[str, Any]:
    """Two containers with environment, volumes, affinity and tolerations: about six kilobytes once stored."""
    requests = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": str(1 << number % 4)}
    environment = [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(20)]
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    main = {
        "name": "train",
        "image": "example.test/train:v3",
        "command": ["python", "-m", "train", "--epochs", "10"],
        "env": environment,
        "resources": {"requests": requests, "limits": requests},
        "ports": [{"containerPort": 8080, "name": "http"}],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}, {"name": "config", "mountPath": "/etc/train"}],
    }
    beside = {"name": "metrics", "image": "example.test/metrics:v1", "env": environment[:8]}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3"]}
                    ]
                }
            ]
        }
    }
    labels = {"app": f"train-{number % 50}", "team": f"team-{number % 7}", "run": f"run-{number:06d}"}
    return {
        "metadata": {"name": f"train-{number:06d}", "labels": labels, "annotations": {"example.test/run": f"{number}"}},
        "spec": {
            "schedulerName": "gpu-scheduler",
            "containers": [main, beside],
            "affinity": {"nodeAffinity": affinity},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "config", "configMap": {"name": "train"}}],
        },
    }


async def populate(kubeconfig: Path, *, pods: int, nodes: int) -> None:
    """Create them all, 64 at a time."""
    api = connect(kubeconfig)
    try:
        await create_all(api, NODES, [a_gpu_node(number) for number in range(nodes)], "")
        await create_all(api, PODS, [a_training_pod(number) for number in range(pods)], "default")
    finally:
        await api.close()


def nodes_with_gpus(count: int) -> list[dict[str, Any]]:
    """Nodes of eight GPUs, named so that their order is their number's, which are ours to give one by one."""
    room = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": str(GPUS_PER_NODE)}
    labels = {"gpu.scheduling/node-kind": "leased"}
    return [a_node(f"node-{number:04d}", labels=labels, allocatable=room) for number in range(count)]


async def report_inventories(api: KubeApi, names: Sequence[str]) -> None:
    """Inventories as an agent would publish them, dated a day ahead: no agent repeats them during a benchmark."""
    moment = Instant(WallClock().now() + 24 * 3600)

    async def report(name: str) -> None:
        devices = tuple(_device(name, number) for number in range(GPUS_PER_NODE))
        made = await api.patch(GPU_NODE_STATUSES, name, apply_node(name, "bench"))
        status = node_report(Inventory(node=name, reported_at=moment, devices=devices))
        await api.patch(GPU_NODE_STATUSES, name, apply_status(made.metadata, status, "bench"), subresource="status")

    await each_of(names, report)


def _device(node: str, number: int) -> Device:
    uuid, island = f"GPU-{node}-{number}", f"i{number // 4}"
    return Device(id=number, uuid=uuid, model="NVIDIA H100 80GB HBM3", memory=Bytes(80 << 30), island=island)


async def create_all(api: KubeApi, resource: Resource[Any], bodies: list[dict[str, Any]], namespace: str) -> None:
    """Create these, 64 at a time."""
    await each_of(bodies, lambda body: api.create(resource, body, namespace))


async def each_of(things: Iterable[T], do: Callable[[T], Awaitable[object]]) -> None:
    """Do it with each of them, 64 at a time."""
    waiting = iter(things)

    async def worker() -> None:
        for thing in waiting:
            await do(thing)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())
