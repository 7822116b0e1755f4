"""A large cluster's worth of nodes and pods on a real API server, as plain as production writes them."""

import asyncio
from pathlib import Path
from typing import Any

from ullage.kube.api import KubeApi
from ullage.kube.connect import connect
from ullage.kube.resource import Resource
from ullage.kube.resources import NODES, PODS

AT_ONCE = 64


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


async def create_all(api: KubeApi, resource: Resource[Any], bodies: list[dict[str, Any]], namespace: str) -> None:
    """Create these, 64 at a time."""
    waiting = iter(bodies)

    async def worker() -> None:
        for body in waiting:
            await api.create(resource, body, namespace)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())
