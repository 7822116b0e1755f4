"""Small clusters for the dashboard, as facts: whoever listens hears of each thing once, and of each change."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ullage.model.claim import Claim, DeviceRequest
from ullage.model.device import MILLI_GPU, Device, DeviceHealth, GpuNodeKind, Inventory
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.node import Node, Taint
from ullage.model.pod import Phase, Pod
from ullage.model.pool_status import LastDecision
from ullage.model.provisioner import (
    MICROS,
    PROVISIONER_LABEL,
    GpuTemplate,
    NodeTemplate,
    PoolThresholds,
    Provisioner,
)
from ullage.model.resources import GPU
from ullage.model.shape import Shape, interned
from ullage.model.units import Bytes, Instant, Micros
from ullage.web.view.pools import PoolView

GIB = 2**30
NOW = Instant(1_767_225_600.0)


class World:
    """Tells `hear` of everything it is told to make."""

    def __init__(self, observe: Callable[[FactEvent[Any]], None], now: float = NOW) -> None:
        self._hear = observe
        self.now = now
        self.nodes: dict[str, Node] = {}
        self.inventories: dict[str, Inventory] = {}
        self.pods: dict[ObjectKey, Pod] = {}
        self.pools: dict[str, PoolView] = {}

    def node(self, name: str, *, gpus: int = 8, islands: int = 2, pool: str = "", **fields: Any) -> None:
        """A node whose agent has said what it has."""
        labels = {"kubernetes.io/hostname": name} | ({PROVISIONER_LABEL: pool} if pool else {})
        offered = {"cpu": 96_000, "memory": 1024 * GIB * 1000, "pods": 110_000, GPU: gpus * MILLI_GPU}
        facts: dict[str, Any] = {
            "uid": f"uid-{name}",
            "created": self.now - 3600,
            "ready": True,
            "unschedulable": False,
            "labels": labels,
            "taints": (),
            "allocatable": offered,
        }
        self.put_node(Node(name=name, **(facts | fields)))
        if gpus:
            template = GpuTemplate(model="H100", count=gpus, memory=Bytes(80 * GIB), islands=islands, bandwidth=900)
            self.report(Inventory(node=name, reported_at=Instant(self.now), devices=template.devices(name)))

    def put_node(self, node: Node) -> None:
        old = self.nodes.get(node.name)
        self.nodes[node.name] = node
        key = ObjectKey("", node.name)
        self._hear(Added(key, node) if old is None else Updated(key, old, node))

    def taint(self, name: str, key: str, value: float | str, effect: str = "NoSchedule") -> None:
        node = self.nodes[name]
        text = value if isinstance(value, str) else str(int(value))
        self.put_node(replace(node, taints=(*node.taints, Taint(key, text, effect))))

    def remove_node(self, name: str) -> None:
        self._hear(Deleted(ObjectKey("", name), self.nodes.pop(name)))

    def report(self, inventory: Inventory) -> None:
        old = self.inventories.get(inventory.node)
        self.inventories[inventory.node] = inventory
        key = ObjectKey("", inventory.node)
        self._hear(Added(key, inventory) if old is None else Updated(key, old, inventory))

    def counted(self, name: str) -> None:
        """Its GPUs are chosen by a device plugin."""
        self.report(replace(self.inventories[name], kind=GpuNodeKind.COUNTED))

    def break_gpu(self, node: str, gpu: int) -> None:
        inventory = self.inventories[node]
        devices = tuple(
            replace(one, health=DeviceHealth.UNHEALTHY) if one.id == gpu else one for one in inventory.devices
        )
        self.report(replace(inventory, devices=devices))

    def devices(self, node: str, *devices: Device) -> None:
        self.report(Inventory(node=node, reported_at=Instant(self.now), devices=devices))

    def pod(self, name: str, *, gpus: int = 0, node: str = "", ids: tuple[int, ...] = (), **fields: Any) -> Pod:
        """A pod of namespace `team`; with a node it runs there."""
        key = ObjectKey("team", name)
        requests = (("cpu", 4000),) + (((GPU, gpus * MILLI_GPU),) if gpus else ())
        facts: dict[str, Any] = {
            "uid": f"uid-{name}",
            "created": self.now - 60,
            "phase": Phase.RUNNING if node else Phase.PENDING,
            "deleting": False,
            "gated": False,
            "scheduler": "gpu-scheduler",
            "priority": 0,
            "labels": {},
            "owner": None,
            "shape": interned(Shape(requests=requests)),
        }
        pod = Pod(key=key, node=node, gpu_ids=ids, **(facts | fields))
        self.put_pod(pod)
        return pod

    def put_pod(self, pod: Pod) -> None:
        old = self.pods.get(pod.key)
        self.pods[pod.key] = pod
        self._hear(Added(pod.key, pod) if old is None else Updated(pod.key, old, pod))

    def bind(self, name: str, node: str, ids: tuple[int, ...]) -> None:
        pod = self.pods[ObjectKey("team", name)]
        self.put_pod(replace(pod, node=node, gpu_ids=ids, phase=Phase.RUNNING))

    def remove_pod(self, name: str) -> None:
        key = ObjectKey("team", name)
        self._hear(Deleted(key, self.pods.pop(key)))

    def claim(self, name: str, ask: DeviceRequest, **fields: Any) -> None:
        key = ObjectKey("team", name)
        self._hear(Added(key, Claim(key=key, uid=f"uid-{name}", generation=1, ask=ask, **fields)))

    def lease(self, node: str, gpu: int, holder: str) -> GpuLease:
        lease = GpuLease(
            name=f"gpu-{node}-{gpu}",
            node=node,
            device=gpu,
            holds=(LeaseHold(holder),),
            shared=False,
            renewed=Instant(self.now),
            resource_version="1",
        )
        self._hear(Added(ObjectKey("ullage-system", lease.name), lease))
        return lease

    def free(self, lease: GpuLease) -> None:
        self._hear(Deleted(ObjectKey("ullage-system", lease.name), lease))

    def pool(self, name: str, *, price: float = 98.32, gpus: int = 8, **standing: Any) -> None:
        facts = Provisioner(
            name=name,
            uid=f"uid-{name}",
            generation=1,
            template=NodeTemplate(
                gpus=GpuTemplate(model="H100", count=gpus, islands=2),
                price=Micros(round(price * MICROS)),
                resources={"cpu": 96_000, "memory": 1024 * GIB * 1000},
            ),
            thresholds=PoolThresholds(max_size=16, **standing.pop("thresholds", {})),
            provider="simulated",
            back_off=standing.pop("back_off", None),
        )
        last = LastDecision(action="ScaleUp", count=1, at=Instant(self.now), why="8 GPUs are waited for")
        said: dict[str, Any] = {"current": 2, "target": 3, "coming": 1, "utilization": 80, "decision": last}
        pool = PoolView(facts, **(said | standing))
        old = self.pools.get(name)
        self.pools[name] = pool
        key = ObjectKey("", name)
        self._hear(Added(key, pool) if old is None else Updated(key, old, pool))
