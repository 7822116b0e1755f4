"""Manifests of simulated nodes, made from the templates of NodeProvisioners. Pure."""

from collections.abc import Mapping

from ullage.kube.client.json_codec import to_json
from ullage.kube.client.resource import JsonObject
from ullage.kube.write.gpu import node_report
from ullage.model.device import GpuNodeKind, Inventory
from ullage.model.provisioner import HOST_LABEL, ZONE_LABEL, NodeTemplate
from ullage.model.resources import GPU, MILLI
from ullage.state.device_columns import KIND_LABEL

PRICE = "sim.ullage/price-per-hour-micros"
"""Annotation with the price of a simulated node that is no instance of the cloud."""
MODEL_LABEL = "nvidia.com/gpu.product"
"""Node label with the GPU model."""
_PODS = "110"


def node_manifest(
    name: str, template: NodeTemplate, labels: Mapping[str, str], *, zone: str = "", gpus_shown: bool = True
) -> JsonObject:
    """Manifest of a Ready node. Its GPUs may appear later."""
    room = node_room(template, gpus_shown=gpus_shown)
    kind = {KIND_LABEL: template.gpus.kind.value.lower()} if template.gpus.count else {}
    where = {ZONE_LABEL: zone} if zone else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {HOST_LABEL: name, **kind, **where, **template.labels, **labels},
            "annotations": {PRICE: str(template.price)},
        },
        "spec": {
            "providerID": f"simulated:///{name}",
            "taints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in template.taints],
        },
        "status": {
            "allocatable": room,
            "capacity": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def node_room(template: NodeTemplate, *, gpus_shown: bool = True) -> dict[str, str]:
    """Capacity of a node made from this template."""
    amounts = {name: _written(amount) for name, amount in template.resources.items()}
    gpus = {GPU: str(template.gpus.count)} if gpus_shown and template.gpus.count else {}
    return {"pods": _PODS, **amounts, **gpus}


def report_manifest(inventory: Inventory) -> JsonObject:
    """GpuNodeStatus that the agent of a node would report."""
    return {
        "apiVersion": "gpu.scheduling/v1",
        "kind": "GpuNodeStatus",
        "metadata": {"name": inventory.node},
        "spec": {"nodeName": inventory.node},
        "status": to_json(node_report(inventory)),
    }


def is_leased(template: NodeTemplate) -> bool:
    """True for a leased node: exact GPUs are allocated by the scheduler."""
    return template.gpus.count > 0 and template.gpus.kind is GpuNodeKind.LEASED


def _written(thousandths: int) -> str:
    return str(thousandths // MILLI) if thousandths % MILLI == 0 else f"{thousandths}m"
