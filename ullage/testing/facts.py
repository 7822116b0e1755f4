"""Facts of nodes, GPUs, Leases and pods, for tests: a builder mentions only what matters; the rest is as usual.

`builders` has the same objects as JSON, as the API server has them.
"""

from typing import Any

from ullage.model.device import Device, Inventory
from ullage.model.fact_event import ObjectKey
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.node import Node
from ullage.model.pod import Phase, Pod
from ullage.model.shape import Shape, interned
from ullage.model.units import Bytes, Instant


def node_fact(name: str, **facts: Any) -> Node:
    """A node that is ready, without labels or taints, and offers nothing."""
    plain: dict[str, Any] = {"uid": name, "created": Instant(0.0), "ready": True, "unschedulable": False}
    return Node(**{"name": name, "labels": {}, "taints": (), "allocatable": {}, **plain, **facts})


def pod_fact(name: str, *, namespace: str = "default", node: str = "", **facts: Any) -> Pod:
    """A pod that asks for nothing: running if it has a node, pending if not."""
    plain: dict[str, Any] = {"created": Instant(0.0), "deleting": False, "gated": False, "priority": 0, "labels": {}}
    given: dict[str, Any] = {
        "uid": f"uid-{name}",
        "phase": Phase.RUNNING if node else Phase.PENDING,
        "scheduler": "gpu-scheduler",
        "shape": interned(Shape()),
        "owner": None,
        **plain,
        **facts,
    }
    return Pod(key=ObjectKey(namespace, name), node=node, **given)


def device_fact(gpu: int = 0, **facts: Any) -> Device:
    """A healthy H100 in no island."""
    return Device(id=gpu, **{"uuid": f"GPU-{gpu}", "model": "H100", "memory": Bytes(80 << 30), **facts})


def inventory_fact(node: str, *devices: Device, reported_at: float = 0.0, **facts: Any) -> Inventory:
    """The report on these GPUs of a node."""
    return Inventory(node=node, reported_at=Instant(reported_at), devices=devices, **facts)


def lease_fact(gpu: int, *holders: str | LeaseHold, node: str = "n", **facts: Any) -> GpuLease:
    """A GPU of a node, held by these: a pod's UID stands for all of the GPU."""
    holds = tuple(LeaseHold(holder) if isinstance(holder, str) else holder for holder in holders)
    plain: dict[str, Any] = {"shared": False, "renewed": Instant(0.0), "resource_version": "1"}
    return GpuLease(name=f"gpu-{node}-{gpu}", node=node, device=gpu, holds=holds, **{**plain, **facts})
