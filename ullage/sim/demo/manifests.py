"""Manifests as users write them, for stories: pools, claims and workloads. All in one namespace."""

from dataclasses import dataclass

import msgspec

from ullage.config.settings import DrainingSettings, Settings
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.read.provisioner import read_provisioner
from ullage.model.allocation import CLAIM as CLAIM_NOTE
from ullage.model.allocation import CLAIM_TEMPLATE
from ullage.model.provisioner import GpuTemplate, NodeTemplate
from ullage.model.units import Bytes, Micros, Seconds
from ullage.sim.demo.terminal_model import ORDINARY_LABEL
from ullage.sim.kubelet.timings import DURATION, STOP
from ullage.sim.world.spec import FleetNode

NAMESPACE = "default"
_OURS = "gpu.scheduling/v1"
_IMAGE = "example.test/work:v1"
_ORDINARY = ("cpu-a", "cpu-b")
_FAREWELL_SECONDS = "25"
"""Seconds a pod of a service takes to stop, to end open connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Hardware of a pool's nodes, their price, and their start-up time in seconds."""

    model: str
    gpus: int
    memory: str
    islands: int
    bandwidth: int = 0
    cpu: str
    ram: str
    price: str
    boot_seconds: int = 150
    gpu_seconds: int = 20


H100 = Hardware(
    model="NVIDIA H100 80GB HBM3",
    gpus=8,
    memory="80Gi",
    islands=2,
    bandwidth=450,
    cpu="96",
    ram="1Ti",
    price="98.32",
)
A100 = Hardware(
    model="NVIDIA A100-SXM4-80GB",
    gpus=8,
    memory="80Gi",
    islands=1,
    bandwidth=300,
    cpu="96",
    ram="1Ti",
    price="32.77",
)
L40S = Hardware(model="NVIDIA L40S", gpus=8, memory="48Gi", islands=8, cpu="96", ram="768Gi", price="15.04")
L4 = Hardware(model="NVIDIA L4", gpus=4, memory="24Gi", islands=4, cpu="48", ram="192Gi", price="4.60")


VISIBLE_DRAINING = Settings(draining=DrainingSettings(node_delete_delay_after_taint=Seconds(20.0)))
"""Drain pace for demos: a node stays tainted for 20 s before it is examined again, so that a viewer sees the taint."""


def pool(name: str, hardware: Hardware, *, least: int, most: int, unneeded: str = "4m") -> JsonObject:
    """NodeProvisioner with draining of unneeded nodes."""
    template: JsonObject = {
        "resources": {"cpu": hardware.cpu, "memory": hardware.ram},
        "gpus": {
            "model": hardware.model,
            "count": hardware.gpus,
            "memory": hardware.memory,
            "islands": hardware.islands,
            "bandwidthGBps": hardware.bandwidth,
        },
        "pricePerHour": hardware.price,
    }
    times = {"bootSeconds": str(hardware.boot_seconds), "gpuSeconds": str(hardware.gpu_seconds)}
    spec: JsonObject = {
        "provider": {"name": "simulated", "parameters": times},
        "template": template,
        "minSize": least,
        "maxSize": most,
        "consolidation": {"policy": "Drain", "unneededTime": unneeded},
    }
    return {"apiVersion": _OURS, "kind": "NodeProvisioner", "metadata": {"name": name}, "spec": spec}


def nodes_of(provisioner: JsonObject, count: int) -> tuple[FleetNode, ...]:
    """Nodes of a pool that exist from the beginning."""
    facts = read_provisioner(msgspec.convert(provisioner, NodeProvisioner))
    few = "abcdefghijklmnopqrst"
    names = few[:count] if count <= len(few) else [f"{number:03}" for number in range(1, count + 1)]
    return tuple(FleetNode(name=f"{facts.name}-{one}", template=facts.template, pool=facts.name) for one in names)


def ordinary_nodes() -> tuple[FleetNode, ...]:
    """Nodes without GPUs, for pods that ask for none: GPU nodes are closed to them."""
    room = {"cpu": 16_000, "memory": 64 * (1 << 30) * 1000}
    template = NodeTemplate(gpus=GpuTemplate(model="", count=0, memory=Bytes(0)), resources=room, price=Micros(0))
    return tuple(FleetNode(name=name, template=template, labels={ORDINARY_LABEL: "true"}) for name in _ORDINARY)


def claim(name: str, count: int, model: str, *, island: bool = False, gang: str = "", members: int = 0) -> JsonObject:
    """Claim for `count` GPUs; with `island`, all in one NVLink island."""
    spec: JsonObject = {"devices": {"count": count, "model": model, "policy": "contiguous"}}
    if island:
        spec["topology"] = {"mode": "Required"}
    if gang:
        spec |= {"gangRef": gang, "gangMinMember": members}
    return {"apiVersion": _OURS, "kind": "GpuClaim", "metadata": _named(name), "spec": spec}


def shared_claim(name: str, memory: str, model: str) -> JsonObject:
    """Claim for a part of one GPU, by its memory."""
    spec: JsonObject = {"devices": {"count": 1, "model": model, "exclusivity": "Shared", "memory": memory}}
    return {"apiVersion": _OURS, "kind": "GpuClaim", "metadata": _named(name), "spec": spec}


def pod(name: str, *, claimed: str = "", priority: str = "") -> JsonObject:
    """A pod with only a claim's name, by default its own. The webhook fills in the rest."""
    spec = _pod_spec("2") | ({"priorityClassName": priority} if priority else {})
    notes = {"annotations": {CLAIM_NOTE: claimed or name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _named(name) | notes, "spec": spec}


def deployment(name: str, replicas: int, *, template: str) -> JsonObject:
    """A Deployment whose replicas each get a claim of their own from the template."""
    labels = {"app": name}
    spec: JsonObject = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": {CLAIM_TEMPLATE: template, STOP: _FAREWELL_SECONDS}},
            "spec": _pod_spec("2"),
        },
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _named(name), "spec": spec}


def job(name: str, workers: int, seconds: int, *, template: str, priority: str = "") -> JsonObject:
    """A Job whose workers all run for `seconds`."""
    notes = {CLAIM_TEMPLATE: template, DURATION: str(seconds)}
    inner = _pod_spec("8") | {"restartPolicy": "Never"} | ({"priorityClassName": priority} if priority else {})
    spec: JsonObject = {
        "parallelism": workers,
        "completions": workers,
        "backoffLimit": 6,
        "template": {"metadata": {"labels": {"app": name}, "annotations": notes}, "spec": inner},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _named(name), "spec": spec}


def budget(name: str, *, unavailable: int) -> JsonObject:
    """A PodDisruptionBudget for the Deployment of this name: at most `unavailable` pods may be missing."""
    spec = {"maxUnavailable": unavailable, "selector": {"matchLabels": {"app": name}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _named(name), "spec": spec}


def priority_class(name: str, value: int) -> JsonObject:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def _named(name: str) -> JsonObject:
    return {"name": name, "namespace": NAMESPACE}


def _pod_spec(cpu: str) -> JsonObject:
    resources = {"requests": {"cpu": cpu, "memory": "8Gi"}}
    return {
        "containers": [{"name": "main", "image": _IMAGE, "resources": resources}],
        "terminationGracePeriodSeconds": 30,
    }
