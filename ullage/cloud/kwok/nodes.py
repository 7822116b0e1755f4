"""Fake nodes: created, given GPUs, kept reporting, and deleted."""

from dataclasses import dataclass, field

from ullage.clock import Clock, Instant
from ullage.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.client.api import Deletion, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_NODE_STATUSES, NODES
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.write.gpu import apply_node, apply_status, node_report
from ullage.model.device import KIND_LABEL, Inventory
from ullage.model.provisioner import HOST_LABEL, ZONE_LABEL, NodeTemplate
from ullage.model.resources import GPU, MILLI

MANAGER = "ullage-kwok"
KWOK_ANNOTATION = "kwok.x-k8s.io/node"
"""KWOK acts as kubelet for nodes with this annotation."""
PODS = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class KwokMachine:
    """Instance that has booted."""

    name: str
    template: NodeTemplate
    labels: dict[str, str] = field(default_factory=dict)
    zone: str = ""
    gpus_at: Instant
    """Instant at which its GPUs appear."""
    report_every: float


class KwokNodeJoiner:
    """Makes Nodes of instances. It remembers only the time of each last report."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._reported: dict[str, Instant] = {}

    async def tend(self, machine: KwokMachine, *, again: bool) -> float:
        """Do the work due for an instance. Returns the instant of the next. `again`: its Node was created before."""
        now = self._clock.now()
        if not again:
            await self._join(machine, with_gpus=machine.gpus_at <= now)
        if machine.gpus_at > now:
            return machine.gpus_at
        last = self._reported.get(machine.name)
        if last is None and not await self._given_gpus(machine):
            return now + machine.report_every  # its Node was deleted, and does not come back
        if last is None or now >= last + machine.report_every:
            await self._report(machine, now)
            last = self._reported[machine.name] = now
        return last + machine.report_every

    async def remove(self, name: str) -> None:
        """Delete Node and GpuNodeStatus, if they exist."""
        self._reported.pop(name, None)
        for resource in (NODES, GPU_NODE_STATUSES):
            try:
                await self._api.delete(resource, name, how=Deletion(grace_seconds=0))
            except (NotFound, Conflict):
                continue

    async def _join(self, machine: KwokMachine, *, with_gpus: bool) -> None:
        zone = {ZONE_LABEL: machine.zone} if machine.zone else {}
        # An agent would label it so; pods with claims select the kind.
        gpus = machine.template.gpus
        kind = {KIND_LABEL: gpus.kind.value.lower()} if gpus.count else {}
        room = _room(machine.template, with_gpus=with_gpus)
        body: JsonObject = {
            "metadata": {
                "name": machine.name,
                "labels": {HOST_LABEL: machine.name} | kind | zone | machine.labels,
                "annotations": {KWOK_ANNOTATION: "fake"},
            },
            "spec": {
                "providerID": f"kwok:///{machine.name}",
                "taints": [
                    {"key": taint.key, "value": taint.value, "effect": taint.effect}
                    for taint in machine.template.taints
                ],
            },
            "status": {
                "allocatable": room,
                "capacity": room,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }
        try:
            await self._api.create(NODES, body)
        except AlreadyExists:
            return

    async def _given_gpus(self, machine: KwokMachine) -> bool:
        """Advertise the GPUs. False if there is no Node to do that on."""
        room = _room(machine.template, with_gpus=True)
        status = {"status": {"allocatable": room, "capacity": room}}
        try:
            await self._api.patch(NODES, machine.name, MergePatch(status), subresource="status")
        except NotFound:
            return False
        return True

    async def _report(self, machine: KwokMachine, now: Instant) -> None:
        gpus = machine.template.gpus
        inventory = Inventory(node=machine.name, reported_at=now, devices=gpus.devices(machine.name), kind=gpus.kind)
        await self._api.patch(GPU_NODE_STATUSES, machine.name, apply_node(machine.name, MANAGER))
        applied = apply_status(ObjectMeta(name=machine.name), node_report(inventory), MANAGER)
        await self._api.patch(GPU_NODE_STATUSES, machine.name, applied, subresource="status")


def _room(template: NodeTemplate, *, with_gpus: bool) -> dict[str, str]:
    amounts = {name: _written(amount) for name, amount in template.resources.items()}
    gpus = {GPU: str(template.gpus.count)} if with_gpus else {}
    return {"pods": str(PODS)} | amounts | gpus


def _written(thousandths: int) -> str:
    return str(thousandths // MILLI) if thousandths % MILLI == 0 else f"{thousandths}m"
