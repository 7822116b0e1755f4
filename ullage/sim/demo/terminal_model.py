"""Rows of the terminal view: the GPU map, the pools, and pending pods with reasons. Pure; `screen` draws them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.model.device import MILLI_GPU, Device, DeviceHealth, Inventory
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import NODE_POOL_LABEL
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.provisioner import DELETION_TAINT, PROVISIONER_LABEL
from ullage.model.resources import whole_gpus


class GpuUse(StrEnum):
    """Use of a GPU."""

    FREE = "free"
    LEASED = "leased"
    SHARED = "shared"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class GpuTile:
    """One GPU."""

    use: GpuUse
    holder: str = ""
    """Workload of the pod that holds the GPU, so that all pods of a workload look alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """A node with its GPUs, island by island. GPUs without NVLink share one group that is no island."""

    name: str
    islands: tuple[tuple[GpuTile, ...], ...]
    wired: bool
    mark: str = ""
    """State of the node that is worth showing: draining, deletion time, not ready, candidate. Empty if none applies."""
    going: bool = False
    """True if the node takes no more pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLine:
    """A pool and its nodes."""

    name: str
    sort: str
    """Number and model of a node's GPUs: `8 x H100`."""
    current: int
    target: int | None
    coming: int
    used_percent: int
    price: str
    nodes: tuple[NodeLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLine:
    workload: str
    pods: tuple[str, ...]
    """Pods of the workload that are pending for the same reason."""
    gpus: int
    """GPUs of each pod."""
    seconds: float
    """Seconds since the first of them was created."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod and the scheduler's last message about it."""

    facts: Pod
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalModel:
    """Observed facts of the cluster that the terminal view is made from."""

    nodes: Mapping[ObjectKey, Node]
    inventories: Mapping[ObjectKey, Inventory]
    pods: Mapping[ObjectKey, SeenPod]
    provisioners: Mapping[ObjectKey, NodeProvisioner]


NO_POOL = "other nodes"
ORDINARY_LABEL = "ullage.dev/ordinary-node"
"""Label of a demo's nodes for pods without GPUs: the terminal, which shows GPUs, leaves them out."""


def pools(terminal: TerminalModel, now: float) -> list[PoolLine]:
    """Pools and NodePools by name; nodes of neither come last."""
    holders = _holders(terminal.pods)
    by_pool: dict[str, list[Node]] = {key.name: [] for key in sorted(terminal.provisioners)}
    for key in sorted(terminal.nodes):
        node = terminal.nodes[key]
        if ORDINARY_LABEL in node.labels:
            continue
        pool = node.labels.get(PROVISIONER_LABEL) or node.labels.get(NODE_POOL_LABEL) or NO_POOL
        by_pool.setdefault(pool, []).append(node)
    ordered = sorted(by_pool, key=lambda name: (name == NO_POOL, name))
    return [_pool(name, by_pool[name], terminal, holders, now) for name in ordered]


def waiting(terminal: TerminalModel, now: float) -> list[PendingLine]:
    """Pods without a node, grouped by workload and reason. The longest-waiting group comes first."""
    found = [
        seen
        for _, seen in sorted(terminal.pods.items())
        if not seen.facts.node and not seen.facts.deleting and not seen.facts.phase.over
    ]

    def kind(seen: SeenPod) -> tuple[str, str, str]:
        return workload_of(seen.facts), seen.reason, seen.message

    rows = []
    for (workload, reason, message), group in groupby(sorted(found, key=kind), key=kind):
        together = list(group)
        rows.append(
            PendingLine(
                workload=workload,
                pods=tuple(seen.facts.key.name for seen in together),
                gpus=whole_gpus(together[0].facts.requests),
                seconds=now - min(seen.facts.created for seen in together),
                reason=reason,
                message=message,
            )
        )
    return sorted(rows, key=lambda row: (-row.seconds, row.pods))


def workload_of(pod: Pod) -> str:
    """Name of a pod's workload: its Deployment or other owner, or the pod's own name if it has no owner."""
    if pod.owner is None:
        return pod.key.name
    return pod.owner.name.rpartition("-")[0] if pod.owner.kind == "ReplicaSet" else pod.owner.name


def _holders(pods: Mapping[ObjectKey, SeenPod]) -> dict[tuple[str, int], GpuTile]:
    """Tile of each held GPU, by node and GPU."""
    found: dict[tuple[str, int], GpuTile] = {}
    for _, seen in sorted(pods.items()):
        pod = seen.facts
        if pod.node and not pod.phase.over:
            use = GpuUse.LEASED if pod.gpu_share >= MILLI_GPU and not pod.gpu_instances else GpuUse.SHARED
            found |= {(pod.node, gpu): GpuTile(use, workload_of(pod)) for gpu in pod.gpu_ids}
    return found


def _pool(
    name: str, nodes: Sequence[Node], terminal: TerminalModel, holders: Mapping[tuple[str, int], GpuTile], now: float
) -> PoolLine:
    provisioner = terminal.provisioners.get(ObjectKey("", name))
    rows = tuple(_node(node, terminal.inventories.get(ObjectKey("", node.name)), holders, now) for node in nodes)
    cells = [cell for row in rows for island in row.islands for cell in island]
    held = sum(cell.use in (GpuUse.LEASED, GpuUse.SHARED) or bool(cell.holder) for cell in cells)
    status = provisioner.status if provisioner is not None else None
    gpus = provisioner.spec.template.gpus if provisioner is not None else None
    return PoolLine(
        name=name,
        sort=f"{gpus.count} x {short_model(gpus.model)}" if gpus is not None else "",
        current=(status.current_size if status is not None else None) or len(nodes),
        target=status.target_size if status is not None else None,
        coming=(status.coming_size or 0) if status is not None else 0,
        used_percent=round(100 * held / len(cells)) if cells else 0,
        price=str(provisioner.spec.template.price_per_hour or "") if provisioner is not None else "",
        nodes=rows,
    )


def short_model(model: str) -> str:
    """`H100` for `NVIDIA H100 80GB HBM3`."""
    return next(iter(model.removeprefix("NVIDIA ").split()), model)


def _node(node: Node, inventory: Inventory | None, holders: Mapping[tuple[str, int], GpuTile], now: float) -> NodeLine:
    devices = inventory.devices if inventory is not None else ()
    mark, going = _mark(node, bool(devices), now)
    islands = [tuple(group) for _, group in groupby(devices, key=lambda device: device.island)]
    return NodeLine(
        name=node.name,
        islands=tuple(tuple(_cell(node.name, device, holders) for device in island) for island in islands),
        wired=any(device.island for device in devices),
        mark=mark,
        going=going,
    )


def _cell(node: str, device: Device, holders: Mapping[tuple[str, int], GpuTile]) -> GpuTile:
    held = holders.get((node, device.id), GpuTile(GpuUse.FREE))
    return held if device.health is DeviceHealth.HEALTHY else GpuTile(GpuUse.BROKEN, held.holder)


def _mark(node: Node, has_gpus: bool, now: float) -> tuple[str, bool]:
    """State of a node worth showing, and whether the node is on its way out."""
    taints = {taint.key: taint.value for taint in node.taints}
    if DRAINING_TAINT in taints:
        return "draining", True
    if (value := taints.get(DELETION_TAINT, "")).isdigit():
        return f"goes in {_minutes(float(value) - now)}", True
    if not node.ready:
        return "not ready", False
    if not has_gpus:
        return "starting: no GPUs yet", False
    if (value := taints.get(CANDIDATE_TAINT, "")).isdigit():
        return f"candidate for {_minutes(now - float(value))}", False
    return ("cordoned", True) if node.unschedulable else ("", False)


def _minutes(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole // 60}:{whole % 60:02}"
