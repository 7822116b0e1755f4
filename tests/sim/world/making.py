"""Small worlds, and what arrives in them."""

from typing import Any

from ullage.kube.client.resources import GPU_CLAIMS, NODE_PROVISIONERS
from ullage.model.provisioner import MICROS, GpuTemplate, NodeTemplate
from ullage.model.units import Bytes, Micros
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.kubelet.timings import DURATION, INSTANT
from ullage.sim.world.spec import Arrival, FleetNode, WorldSpec
from ullage.testing.builders import a_gpu_claim, of_kind

GIB = 1 << 30
HOUR = 3600.0
AT_ONCE = ControllerManagerSettings(behaviour=INSTANT)
"""Pods start and stop in no time."""


def template(gpus: int = 8, *, price: int = 16) -> NodeTemplate:
    return NodeTemplate(
        gpus=GpuTemplate(model="H100", count=gpus, memory=Bytes(80 * GIB), islands=2 if gpus % 2 == 0 else 1),
        resources={"cpu": 96_000, "memory": 768 * GIB * 1000},
        price=Micros(price * MICROS),
    )


def fleet(count: int, **more: Any) -> tuple[FleetNode, ...]:
    return tuple(FleetNode(name=f"gpu-{number}", template=template(**more)) for number in range(count))


def world(nodes: int | tuple[FleetNode, ...] = 2, **more: Any) -> WorldSpec:
    """Nodes with eight GPUs each, and every loop, unless said otherwise."""
    there = fleet(nodes) if isinstance(nodes, int) else nodes
    plain: dict[str, Any] = {"seed": 1, "nodes": there, "actors": AT_ONCE}
    return WorldSpec(**(plain | more))


def pool(name: str = "pool", *, least: int = 0, most: int = 10, **more: Any) -> dict[str, Any]:
    """A NodeProvisioner of nodes with eight GPUs for 16 an hour."""
    spec = {
        "provider": {"name": "aws", "parameters": {"bootSeconds": "100", "gpuSeconds": "20"}},
        "template": {
            "resources": {"cpu": "96", "memory": "768Gi"},
            "gpus": {"model": "H100", "count": 8, "memory": "80Gi", "islands": 2},
            "pricePerHour": "16",
        },
        "minSize": least,
        "maxSize": most,
        "minGPUUtilizationPercent": 50,
        "scaleDownDelay": "5m",
    }
    return of_kind(NODE_PROVISIONERS, {"metadata": {"name": name}, "spec": spec | more})


def pod(name: str, gpus: int = 1, *, seconds: float | None = None, claim: str = "", **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus and not claim else {})
    notes = {DURATION: str(seconds)} if seconds is not None else {}
    notes |= {"gpu.scheduling/claim": claim} if claim else {}
    container = {"name": "main", "image": "example.test/main:v1", "resources": {"requests": amounts, "limits": amounts}}
    plain = {
        "schedulerName": "gpu-scheduler",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": notes},
        "spec": plain | spec,
    }


def claim(name: str, count: int = 1, **spec: Any) -> dict[str, Any]:
    return of_kind(GPU_CLAIMS, a_gpu_claim(name, count, **spec))


def arrives(at: float, *objects: dict[str, Any], **more: Any) -> Arrival:
    return Arrival(at=at, objects=objects, **more)
