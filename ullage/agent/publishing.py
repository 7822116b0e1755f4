"""Writes what the agent found: the node's GpuNodeStatus, and on the Node its kind, its taint and how many GPUs it has.

Nothing is decided here. What is already so is not written again, except the report, whose time moves each time.
"""

from collections.abc import Container, Sequence

from msgspec.structs import replace

from ullage.clock import Clock
from ullage.errors import NotFound
from ullage.kube.api import Apply, KubeApi, MergePatch
from ullage.kube.edit import edit
from ullage.kube.gpu_read import read_inventory
from ullage.kube.gpu_write import Aspect, apply_status, node_report, with_aspect
from ullage.kube.objects.meta import Condition, ObjectMeta
from ullage.kube.objects.node import Node, NodeSpec, Taint
from ullage.kube.resources import GPU_NODE_STATUSES, NODES
from ullage.model.admission import LEASED_TAINT
from ullage.model.device import GpuNodeKind, Health, Inventory
from ullage.model.resources import GPU
from ullage.state.gpus import KIND_LABEL

MANAGER = "ullage-agent"
BOOT_ID = "gpu.scheduling/boot-id"
"""On a GpuNodeStatus: the start of the machine it speaks of."""

_KEEPS_OFF = Taint(key=LEASED_TAINT, value="true", effect="NoSchedule")


class Publisher:
    """Speaks for one node."""

    def __init__(self, api: KubeApi, node: str, clock: Clock) -> None:
        self._api = api
        self._node = node
        self._clock = clock
        self._conditions: tuple[Condition, ...] = ()

    async def last_report(self) -> tuple[Inventory | None, str]:
        """What was last said of this node, and of which start of the machine. None if nothing was."""
        try:
            found = await self._api.get(GPU_NODE_STATUSES, self._node)
        except NotFound:
            return None, ""
        self._conditions = found.status.conditions
        return read_inventory(found), found.metadata.annotations.get(BOOT_ID, "")

    async def node(self) -> Node:
        """The Node as it is now."""
        return await self._api.get(NODES, self._node)

    async def introduce(self, boot_id: str) -> None:
        """There is a GpuNodeStatus afterwards, which goes when the Node goes."""
        owner = (await self.node()).metadata
        reference = {"apiVersion": "v1", "kind": "Node", "name": owner.name, "uid": owner.uid}
        notes = {"annotations": {BOOT_ID: boot_id}} if boot_id else {}
        body = {"metadata": {"name": self._node, "ownerReferences": [reference], **notes}}
        await self._api.patch(GPU_NODE_STATUSES, self._node, Apply({**body, "spec": {"nodeName": self._node}}, MANAGER))

    async def report(self, inventory: Inventory, aspects: Sequence[Aspect]) -> None:
        """Say what the node has. Raises NotFound if nobody introduced it, or its GpuNodeStatus was deleted since."""
        conditions = self._conditions
        for aspect in aspects:
            conditions = with_aspect(conditions, aspect, generation=0, now=self._clock.now())
        ours = {aspect.type for aspect in aspects}
        status = node_report(inventory, conditions=[one for one in conditions if one.type in ours])
        await self._api.patch(
            GPU_NODE_STATUSES,
            self._node,
            apply_status(ObjectMeta(name=self._node), status, MANAGER),
            subresource="status",
        )
        self._conditions = conditions

    async def mark(self, inventory: Inventory, held: Container[int] = ()) -> None:
        """Make the Node say who chooses its GPUs, and where that is us, how many there are to give.

        `held` are GPUs that pods have. An unhealthy one among them still counts: so does what its pod requests.
        """
        await edit(self._api, NODES, self._node, "", lambda node: _marked(node, inventory.kind))
        if inventory.kind is GpuNodeKind.LEASED:
            devices = inventory.devices
            usable = sum(device.health is Health.HEALTHY or device.id in held for device in devices)
            await self._advertise(len(devices), usable)

    async def _advertise(self, total: int, usable: int) -> None:
        """kubelet keeps what it does not know, but sets allocatable back to capacity: this is said again and again."""
        status = (await self.node()).status
        wanted = {"capacity": {GPU: str(total)}, "allocatable": {GPU: str(usable)}}
        said = {"capacity": str(status.capacity.get(GPU, "")), "allocatable": str(status.allocatable.get(GPU, ""))}
        if any(said[member] != amounts[GPU] for member, amounts in wanted.items()):
            await self._api.patch(NODES, self._node, MergePatch({"status": wanted}), subresource="status")


def _marked(node: Node, kind: GpuNodeKind) -> Node:
    labels = {**node.metadata.labels, KIND_LABEL: kind.value.lower()}
    return replace(node, metadata=replace(node.metadata, labels=labels), spec=_tainted(node.spec, kind))


def _tainted(spec: NodeSpec, kind: GpuNodeKind) -> NodeSpec:
    ours = [taint for taint in spec.taints if taint.key == LEASED_TAINT]
    wanted = [_KEEPS_OFF] if kind is GpuNodeKind.LEASED else []
    if [taint.effect for taint in ours] == [taint.effect for taint in wanted]:
        return spec
    return replace(spec, taints=(*(taint for taint in spec.taints if taint.key != LEASED_TAINT), *wanted))
