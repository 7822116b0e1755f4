"""Manifests of fidelity stories: nodes with their agents' reports, pools, pods with claims. Pure."""

from typing import Any

from ullage.kube.client.resource import JsonObject
from ullage.model.device import NEVER_OLD, Device, Inventory
from ullage.model.provisioner import GpuTemplate, NodeTemplate
from ullage.model.units import Bytes, Instant
from ullage.sim.kubelet.timings import DURATION
from ullage.sim.world.nodes import node_manifest, report_manifest
from ullage.testing.builders import a_pod
from ullage.testing.controlplane.components import KWOK_NODE_ANNOTATION

KWOK_DURATION = "testing.ullage.dev/runs-for"
NS = "default"
_GIB = 1 << 30
_MODELS = {8: "NVIDIA H100 80GB HBM3", 4: "NVIDIA L4"}


def template(gpus: int) -> NodeTemplate:
    """8 H100 in two NVLink islands, or fewer L4 that are not joined."""
    joined = gpus == 8
    cards = GpuTemplate(
        model=_MODELS.get(gpus, _MODELS[4]),
        count=gpus,
        memory=Bytes((80 if joined else 24) * _GIB),
        islands=2 if joined else gpus,
        bandwidth=450 if joined else 0,
    )
    return NodeTemplate(gpus=cards, resources={"cpu": 96_000, "memory": 768 * _GIB * 1000})


def node(name: str, gpus: int) -> list[JsonObject]:
    """A node that KWOK or a simulated kubelet keeps, and the report of its agent."""
    made = node_manifest(name, template(gpus), {})
    made["metadata"]["annotations"] |= dict([KWOK_NODE_ANNOTATION])
    return [made, report(name, template(gpus).gpus.devices(name))]


def report(name: str, devices: tuple[Device, ...]) -> JsonObject:
    """A report that stays fresh."""
    return report_manifest(Inventory(node=name, reported_at=Instant(NEVER_OLD), devices=devices))


def pool(name: str, gpus: int, most: int, **more: Any) -> JsonObject:
    """A NodeProvisioner whose machines boot soon and are given back soon.

    Their times are no whole seconds. Plans are a second apart: a machine in step with them is there a few milliseconds
    before a plan or after it, by chance, and that decides when the next pod is planned for.
    """
    cards = {"model": "H100" if gpus == 8 else "L4", "count": gpus, "memory": "80Gi" if gpus == 8 else "24Gi"}
    spec = {
        "provider": {"name": "kwok", "parameters": {"bootSeconds": "1.3", "gpuSeconds": "1.4"}},
        "template": {"resources": {"cpu": "96", "memory": "768Gi"}, "gpus": cards, "pricePerHour": str(gpus)},
        "maxSize": most,
        "scaleDownDelay": "4s",
        "scaleUpBatch": "1s",
        "minGPUUtilizationPercent": 80,
    }
    return {
        "apiVersion": "gpu.scheduling/v1",
        "kind": "NodeProvisioner",
        "metadata": {"name": name},
        "spec": spec | more,
    }


def priority(name: str, value: int) -> JsonObject:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def pod(name: str, gpus: int, *, runs: float | None = None, claimed: bool = False, **spec: Any) -> JsonObject:
    """A pod with whole GPUs, by request or by the claim of its name."""
    notes = {"gpu.scheduling/claim": name} if claimed else {}
    if runs is not None:
        notes |= {DURATION: f"{runs:.3f}", KWOK_DURATION: f"{runs:.3f}s"}
    more: dict[str, Any] = {"schedulerName": "gpu-scheduler", "terminationGracePeriodSeconds": 0, **spec}
    made = a_pod(name, annotations=notes, gpus=gpus, requests={"cpu": "1", "memory": "1Gi"}, **more)
    made["metadata"]["namespace"] = NS
    return {"apiVersion": "v1", "kind": "Pod", **made}


def claim(name: str, gpus: int, **more: Any) -> JsonObject:
    """A GpuClaim; `devices` adds to its devices, everything else to its spec."""
    devices = {"count": gpus, **more.pop("devices", {})}
    return {
        "apiVersion": "gpu.scheduling/v1",
        "kind": "GpuClaim",
        "metadata": {"name": name, "namespace": NS},
        "spec": {"devices": devices, **more},
    }
