"""Facts for pictures: only what matters is mentioned. Pods are read from manifests, as informers read them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ullage.clock import Instant
from ullage.kube.objects.pod import KubePod
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.timestamps import write_time
from ullage.model.device import DeviceHealth, Inventory
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node
from ullage.model.provisioner import PROVISIONER_LABEL, GpuTemplate
from ullage.model.resources import GPU
from ullage.sim.demo.informers import seen_pod
from ullage.sim.demo.manifests import H100, pool
from ullage.sim.demo.terminal_model import SeenPod, TerminalModel
from ullage.testing.builders import a_pod
from ullage.testing.facts import node_fact

NOW = Instant(1_767_225_600.0)
_GPUS = GpuTemplate(model="NVIDIA H100 80GB HBM3", count=8, islands=2, bandwidth=450)


def a_node(name: str, pool: str = "") -> Node:
    return node_fact(name, created=NOW, labels={PROVISIONER_LABEL: pool} if pool else {})


def inventory_of(node: str, broken: Sequence[int] = (), health: DeviceHealth = DeviceHealth.UNHEALTHY) -> Inventory:
    """Eight GPUs in two islands."""
    devices = tuple(
        msgspec.structs.replace(device, health=health) if device.id in broken else device
        for device in _GPUS.devices(node)
    )
    return Inventory(node=node, reported_at=NOW, devices=devices)


def provisioner(name: str, **sizes: int) -> NodeProvisioner:
    status = {f"{key}Size": value for key, value in sizes.items()}
    return msgspec.convert(pool(name, H100, least=0, most=9) | {"status": status}, NodeProvisioner)


def a_pod_of(
    name: str,
    *,
    node: str = "",
    gpus: Sequence[int] = (),
    app: str = "",
    waits: tuple[str, str] | None = None,
    **more: Any,
) -> SeenPod:
    """On a node with these GPUs; or waiting, with what its scheduler says."""
    notes = {"gpu.scheduling/allocated": f"{node}:{','.join(map(str, gpus))}"} if gpus else {}
    if "share" in more:
        notes["gpu.scheduling/share-milli"] = str(more["share"])
    body = a_pod(name, annotations=notes, requests={GPU: str(more.get("asks", 1))}, nodeName=node)
    meta = body["metadata"] | {"namespace": "default", "uid": name}
    meta["creationTimestamp"] = write_time(Instant(more.get("created", NOW)))
    if more.get("deleting"):
        meta["deletionTimestamp"] = write_time(Instant(NOW))
    if app:
        meta["ownerReferences"] = [{"kind": "Job", "name": app, "uid": app, "controller": True}]
    said = {"type": "PodScheduled", "status": "False", "reason": waits[0], "message": waits[1]} if waits else None
    status = {"phase": more.get("phase", "Running" if node else "Pending"), "conditions": [said] if said else []}
    return seen_pod(msgspec.convert(body | {"metadata": meta, "status": status}, KubePod))


def terminal(
    *,
    nodes: Sequence[Node] = (),
    inventories: Sequence[Inventory] = (),
    pods: Sequence[SeenPod] = (),
    provisioners: Sequence[NodeProvisioner] = (),
) -> TerminalModel:
    return TerminalModel(
        nodes={ObjectKey("", one.name): one for one in nodes},
        inventories={ObjectKey("", one.node): one for one in inventories},
        pods={one.facts.key: one for one in pods},
        provisioners={ObjectKey("", one.metadata.name): one for one in provisioners},
    )
