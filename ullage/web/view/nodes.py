"""Node row of the map: state and holder of each GPU, and whether the node is marked for deletion."""

from collections.abc import Iterable

from msgspec.structs import replace

from ullage.decide.explain.waiting_groups import workload_of
from ullage.decide.placement.devices.freshness import STALE_AFTER
from ullage.decide.placement.observed_gpus import IN_USE
from ullage.decide.placement.prefilter import claim_of
from ullage.decide.provisioning.pool_nodes import deletion_time, matters
from ullage.model.device import MILLI_GPU, Device, DeviceHealth, GpuNodeKind, Inventory
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.provisioner import PROVISIONER_LABEL, ZONE_LABEL, Provisioner
from ullage.model.resources import GPU, whole_gpus
from ullage.state.device_columns import NodeKindCode
from ullage.state.snapshot import ClusterSnapshot
from ullage.web.view.rows import GpuCell, GpuHolder, NodeRow

NO_NAMESPACE = "\n"
"""Prefix of namespaces that no real pod can have. A pod in them stands for a Lease, a ResourceClaim or a process."""
FOREVER = 9_999_999_999.0
"""Stands for a deletion time that cannot be read."""


def node_row(snapshot: ClusterSnapshot, name: str, pool: Provisioner | None, *, now: float) -> NodeRow:
    """Row of an existing node."""
    node, inventory = snapshot.state.nodes[name], snapshot.state.inventories.get(name)
    row = snapshot.columns.rows[name]
    pods = list(snapshot.pods_on(name).values())
    held = (_holder(pod, snapshot) for pod in pods if _has_gpus(pod))
    holders = tuple(sorted(held, key=lambda one: (one.gpus, one.pod, one.what)))
    devices = () if inventory is None else tuple(sorted(inventory.devices, key=lambda device: device.id))
    gone_by = deletion_time(node)
    base = NodeRow(
        name=name,
        pool=node.labels.get(PROVISIONER_LABEL, ""),
        zone=node.labels.get(ZONE_LABEL, ""),
        holders=holders,
        pods=sum(matters(pod) and not pod.key.namespace.startswith(NO_NAMESPACE) for pod in pods),
        counted=snapshot.columns.gpus.kind[row] == NodeKindCode.COUNTED
        or (not devices and bool(node.allocatable.get(GPU))),
        ready=node.ready,
        cordoned=node.unschedulable,
        stale=is_stale(inventory, now=now),
        protected=node.kept,
        deletion_time=None if gone_by is None else min(gone_by, FOREVER),
        draining_since=_since(node, DRAINING_TAINT),
        candidate_since=_since(node, CANDIDATE_TAINT),
        created=node.created,
    )
    return _with_devices(base, devices) if devices else _without_devices(base, node, pool)


def is_stale(inventory: Inventory | None, *, now: float) -> bool:
    """True if the node's agent has reported, and its last report is older than STALE_AFTER."""
    return inventory is not None and inventory.reported_at < now - STALE_AFTER


def _since(node: Node, key: str) -> float | None:
    for taint in node.taints:
        if taint.key == key:
            return float(taint.value) if taint.value.isdecimal() else 0.0
    return None


def _has_gpus(pod: Pod) -> bool:
    return bool(pod.gpu_ids) or GPU in dict(pod.shape.requests)


def _holder(pod: Pod, snapshot: ClusterSnapshot) -> GpuHolder:
    ours = pod.key.namespace.startswith(NO_NAMESPACE)
    what = _stands_for(pod) if ours else ""
    return GpuHolder(
        pod="" if ours else str(pod.key),
        what=what,
        gpus=pod.gpu_ids,
        count=0 if pod.gpu_ids else whole_gpus(dict(pod.shape.requests)),
        milli=pod.gpu_share,
        leaving=pod.deleting,
        workload="" if ours else _workload(pod, snapshot),
    )


def _workload(pod: Pod, snapshot: ClusterSnapshot) -> str:
    claim = claim_of(pod, snapshot.state)
    return workload_of(pod, "" if claim is None else claim.gang)


def _stands_for(pod: Pod) -> str:
    """Kind of holder that a placeholder pod stands for."""
    if pod.key.namespace == IN_USE:
        return "process without a Lease"
    return f"Lease {pod.key.name}" if pod.key.namespace == NO_NAMESPACE else "ResourceClaim"


def _with_devices(row: NodeRow, devices: tuple[Device, ...]) -> NodeRow:
    held = _held(row.holders)
    reserved = {gpu for one in row.holders if one.what.startswith("Lease") for gpu in one.gpus}
    parts = {gpu for one in row.holders if one.milli < MILLI_GPU for gpu in one.gpus}
    unnamed = sum(one.count for one in row.holders)
    states: list[GpuCell] = []
    for device in devices:
        state = _state(device, held.get(device.id, 0), reserved=device.id in reserved, shared=device.id in parts)
        if state is GpuCell.FREE and unnamed > 0:
            state, unnamed = GpuCell.LEASED, unnamed - 1
        states.append(state)
    ids = tuple(device.id for device in devices)
    taken = tuple(held.get(device.id, 0) for device in devices)
    return replace(
        row,
        model=devices[0].model,
        states="".join(states),
        ids=() if ids == tuple(range(len(ids))) else ids,
        islands=_islands(devices),
        taken=taken if parts else (),
    )


def _without_devices(row: NodeRow, node: Node, pool: Provisioner | None) -> NodeRow:
    """Row by GPU count: as the node advertises, or as its pool promises until its agent has reported."""
    there = whole_gpus(node.allocatable)
    awaited = pool is not None and pool.template.gpus.kind is GpuNodeKind.LEASED
    if there and not awaited:
        used = min(there, sum(one.count or len(one.gpus) for one in row.holders))
        model = "" if pool is None else pool.template.gpus.model
        return replace(row, model=model, states=GpuCell.LEASED * used + GpuCell.FREE * (there - used))
    if pool is None:
        return row
    gpus = pool.template.gpus
    return replace(row, model=gpus.model, states=GpuCell.COMING * gpus.count, counted=False)


def _held(holders: Iterable[GpuHolder]) -> dict[int, int]:
    held: dict[int, int] = {}
    for one in holders:
        for gpu in one.gpus:
            held[gpu] = held.get(gpu, 0) + one.milli
    return held


def _state(device: Device, held: int, *, reserved: bool, shared: bool) -> GpuCell:
    if device.health is not DeviceHealth.HEALTHY:
        return GpuCell.UNHEALTHY
    if not held:
        return GpuCell.FREE
    if reserved:
        return GpuCell.RESERVED
    return GpuCell.SHARED if shared else GpuCell.LEASED


def _islands(devices: tuple[Device, ...]) -> tuple[int, ...]:
    """Number of each GPU's island, in order of the island's lowest device; empty if no GPUs are joined by NVLink."""
    names = [device.island or f"\n{device.id}" for device in devices]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return () if len(numbers) == len(names) else tuple(numbers[name] for name in names)
