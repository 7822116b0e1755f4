"""NodeStatusWriter: writes the node's GpuNodeStatus, and on the Node its kind, its taint and its number of GPUs.

Nothing is decided here. Fields that are right already are not written again, except the report and its time.
"""

from collections.abc import Container, Sequence

from msgspec.structs import replace

from ullage.clock import Clock
from ullage.errors import NotFound
from ullage.kube.client.api import Apply, KubeApi, MergePatch
from ullage.kube.client.edit import edit
from ullage.kube.client.resources import GPU_NODE_STATUSES, NODES
from ullage.kube.objects.meta import Condition, ObjectMeta
from ullage.kube.objects.node import KubeNode, KubeTaint, NodeSpec
from ullage.kube.read.gpu import read_inventory
from ullage.kube.write.gpu import ConditionSpec, apply_status, node_report, with_aspect
from ullage.model.admission import LEASED_TAINT
from ullage.model.device import DeviceHealth, GpuNodeKind, Inventory
from ullage.model.resources import GPU
from ullage.state.device_columns import KIND_LABEL

MANAGER = "ullage-agent"
BOOT_ID = "gpu.scheduling/boot-id"
"""Annotation of a GpuNodeStatus: boot id of the machine it reports on."""

_KEEPS_OFF = KubeTaint(key=LEASED_TAINT, value="true", effect="NoSchedule")


class NodeStatusWriter:
    """Writes for one node."""

    def __init__(self, api: KubeApi, node: str, clock: Clock) -> None:
        self._api = api
        self._node = node
        self._clock = clock
        self._conditions: tuple[Condition, ...] = ()

    async def last_report(self) -> tuple[Inventory | None, str]:
        """Inventory last reported for this node, and the boot id it was reported with. None if there is none."""
        try:
            found = await self._api.get(GPU_NODE_STATUSES, self._node)
        except NotFound:
            return None, ""
        self._conditions = found.status.conditions
        return read_inventory(found), found.metadata.annotations.get(BOOT_ID, "")

    async def node(self) -> KubeNode:
        """The Node as it is now."""
        return await self._api.get(NODES, self._node)

    async def introduce(self, boot_id: str) -> None:
        """Make sure there is a GpuNodeStatus, owned by the Node so that it is deleted with it."""
        owner = (await self.node()).metadata
        reference = {"apiVersion": "v1", "kind": "Node", "name": owner.name, "uid": owner.uid}
        notes = {"annotations": {BOOT_ID: boot_id}} if boot_id else {}
        body = {"metadata": {"name": self._node, "ownerReferences": [reference], **notes}}
        await self._api.patch(GPU_NODE_STATUSES, self._node, Apply({**body, "spec": {"nodeName": self._node}}, MANAGER))

    async def report(self, inventory: Inventory, aspects: Sequence[ConditionSpec]) -> None:
        """Write the inventory. Raises NotFound if there is no GpuNodeStatus: see `introduce`."""
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

    async def mark(self, node: KubeNode, inventory: Inventory, held: Container[int] = ()) -> None:
        """Write the node's kind on the Node, and on a leased node the number of GPUs there are to give.

        `node` is the Node as last observed: fields that are right cost no request. `held` are GPUs that pods have. An
        unhealthy one among them still counts: so does what its pod requests.
        """
        was_ours = any(taint.key == LEASED_TAINT for taint in node.spec.taints)
        if _marked(node, inventory.kind) != node:
            await edit(self._api, NODES, self._node, "", lambda node: _marked(node, inventory.kind))
        if inventory.kind is GpuNodeKind.LEASED:
            devices = inventory.devices
            usable = sum(device.health is DeviceHealth.HEALTHY or device.id in held for device in devices)
            await self._advertise(node, str(len(devices)), str(usable))
        elif inventory.kind is GpuNodeKind.DRA and was_ours:
            await self._advertise(node, None, None)  # a device plugin advertises its own number, a DRA driver none

    async def _advertise(self, node: KubeNode, total: str | None, usable: str | None) -> None:
        """Write capacity and allocatable. kubelet sets allocatable back to capacity, so this is repeated."""
        wanted = {"capacity": {GPU: total}, "allocatable": {GPU: usable}}
        said = {"capacity": node.status.capacity.get(GPU), "allocatable": node.status.allocatable.get(GPU)}
        if any(_text(said[member]) != amounts[GPU] for member, amounts in wanted.items()):
            await self._api.patch(NODES, self._node, MergePatch({"status": wanted}), subresource="status")


def _text(amount: object) -> str | None:
    return None if amount is None else str(amount)


def _marked(node: KubeNode, kind: GpuNodeKind) -> KubeNode:
    labels = {**node.metadata.labels, KIND_LABEL: kind.value.lower()}
    return replace(node, metadata=replace(node.metadata, labels=labels), spec=_tainted(node.spec, kind))


def _tainted(spec: NodeSpec, kind: GpuNodeKind) -> NodeSpec:
    ours = [taint for taint in spec.taints if taint.key == LEASED_TAINT]
    wanted = [_KEEPS_OFF] if kind is GpuNodeKind.LEASED else []
    if [taint.effect for taint in ours] == [taint.effect for taint in wanted]:
        return spec
    return replace(spec, taints=(*(taint for taint in spec.taints if taint.key != LEASED_TAINT), *wanted))
