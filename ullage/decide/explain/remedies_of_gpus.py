"""Remedies for reasons about GPUs: agents, health, model, memory, shares, MIG, topology."""

from collections.abc import Iterator

from msgspec.structs import replace

from ullage.decide.explain.proof import key_of
from ullage.decide.explain.remedy import Case, Remedy
from ullage.decide.placement.devices.requirements import gib
from ullage.model.claim import DevicePolicy, Exclusivity, TopologyMode
from ullage.model.device import Device, DeviceHealth, GpuNodeKind, Inventory
from ullage.model.fact_event import Added, Updated
from ullage.model.resources import GPU, MILLI
from ullage.model.units import Bytes

GIB = 1 << 30


def agent_runs(case: Case) -> Iterator[Remedy]:
    """The agent reports GPUs as the claim asks for, as many as the node advertises."""
    node, ask = case.node, case.ready.shape.devices
    if node is None:
        return
    count = max(node.allocatable.get(GPU, 0) // MILLI, 1 if ask is None else ask.count)
    devices = tuple(
        Device(
            id=gpu,
            uuid=f"GPU-{node.name}-{gpu}",
            model="GPU" if ask is None or not ask.model else ask.model.split("|")[0],
            memory=Bytes((0 if ask is None else ask.memory) or 80 * GIB),
            island="all",
            bandwidth=0 if ask is None else ask.min_bandwidth,
            peers=tuple(other for other in range(count) if other != gpu),
        )
        for gpu in range(count)
    )
    report = Inventory(node=node.name, reported_at=case.now, devices=devices, kind=GpuNodeKind.LEASED)
    yield Remedy(
        sentence=f"run the agent on {node.name}: nobody reports which GPUs it has",
        commands=(
            f"kubectl label node {node.name} nvidia.com/gpu.present=true",
            "ullage install --apply",
            f"kubectl get pods -A -l app.kubernetes.io/component=agent --field-selector spec.nodeName={node.name}",
        ),
        changes=(Added(key_of(node.name), report),),
    )


def agent_back(case: Case) -> Iterator[Remedy]:
    node = case.node
    report = None if node is None else case.assigner.snapshot.state.inventories.get(node.name)
    if node is not None and report is not None:
        agents = "kubectl -n ullage-system get pods -l app.kubernetes.io/component=agent"
        yield Remedy(
            sentence=f"start the agent of {node.name} again: it reported {case.now - report.reported_at:.0f} s ago",
            commands=(f"{agents} --field-selector spec.nodeName={node.name}",),
            changes=(Updated(key_of(node.name), report, replace(report, reported_at=case.now)),),
        )


def repaired(case: Case) -> Iterator[Remedy]:
    node = case.node
    report = None if node is None else case.assigner.snapshot.state.inventories.get(node.name)
    if node is None or report is None:
        return
    ill = [device.id for device in report.devices if device.health is not DeviceHealth.HEALTHY]
    healthy = tuple(replace(device, health=DeviceHealth.HEALTHY) for device in report.devices)
    named = ",".join(map(str, ill))
    yield Remedy(
        sentence=f"repair GPU {named} of {node.name}: reset it, or replace the node",
        commands=(
            f"kubectl get gpunodestatus {node.name} -o yaml",
            f"kubectl drain {node.name} --ignore-daemonsets  # then: nvidia-smi --gpu-reset -i {named}",
        ),
        changes=(Updated(key_of(node.name), report, replace(report, devices=healthy)),),
    )


def other_model(case: Case) -> Iterator[Remedy]:
    devices = _devices(case)
    models = list(dict.fromkeys(device.model for device in devices))
    if models:
        said = f"ask for model {models[0]}, which {case.obstacle.example} has, or for none"
        yield from filter(None, (case.asking(said, {"devices": {"model": models[0]}}, model=models[0]),))


def less_memory(case: Case) -> Iterator[Remedy]:
    most = max((device.memory for device in _devices(case)), default=0)
    if most:
        size = f"{most // GIB}Gi"
        said = f"ask for at most {gib(most)} of memory, which the GPUs of {case.obstacle.example} have"
        yield from filter(None, (case.asking(said, {"devices": {"memory": size}}, memory=most // GIB * GIB),))


def other_ids(case: Case) -> Iterator[Remedy]:
    fields = {"devices": {"policy": "contiguous", "preferIds": None}}
    changes = {"policy": DevicePolicy.CONTIGUOUS, "prefer_ids": ()}
    yield from filter(None, (case.asking("leave preferIds out", fields, **changes),))


def whole_gpu(case: Case) -> Iterator[Remedy]:
    """A whole GPU instead of a part that no GPU can give."""
    fields = {"devices": {"exclusivity": "Exclusive"}}
    said = "ask for a whole GPU (exclusivity Exclusive)"
    yield from filter(None, (case.asking(said, fields, exclusivity=Exclusivity.EXCLUSIVE),))


def smaller_instance(case: Case) -> Iterator[Remedy]:
    pieces = [piece.memory for device in _devices(case) for piece in device.mig]
    if pieces:
        most = max(pieces)
        said = f"ask for at most {gib(most)}, the largest MIG instance of {case.obstacle.example}"
        size = f"{most // GIB}Gi"
        yield from filter(None, (case.asking(said, {"devices": {"memory": size}}, memory=most),))
    yield from whole_gpu(case)


def any_topology(case: Case) -> Iterator[Remedy]:
    fields = {"topology": {"mode": "Preferred", "minBandwidthGBps": None}}
    changes = {"topology": TopologyMode.PREFERRED, "min_bandwidth": 0}
    yield from filter(None, (case.asking("set topology.mode to Preferred", fields, **changes),))


def slower(case: Case) -> Iterator[Remedy]:
    most = max((device.bandwidth for device in _devices(case)), default=0)
    fields = {"topology": {"minBandwidthGBps": most}}
    said = f"ask for at most {most} GB/s, which the GPUs of {case.obstacle.example} have"
    yield from filter(None, (case.asking(said, fields, min_bandwidth=most),))
    yield from any_topology(case)


def fewer(case: Case) -> Iterator[Remedy]:
    """As many GPUs as the node has that would do."""
    ask = case.ready.shape.devices
    count = sum(device.health is DeviceHealth.HEALTHY for device in _devices(case))
    if ask is not None and 0 < count < ask.count:
        said = f"ask for at most {count} GPUs, which {case.obstacle.example} has"
        yield from filter(None, (case.asking(said, {"devices": {"count": count}}, count=count),))


def _devices(case: Case) -> tuple[Device, ...]:
    report = case.assigner.snapshot.state.inventories.get(case.obstacle.example)
    return () if report is None else report.devices
