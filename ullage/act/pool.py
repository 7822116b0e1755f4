"""Does what was decided on a pool: buys, taints, spares, deletes. Looks again before it deletes; never decides."""

from collections.abc import Callable
from math import ceil
from typing import assert_never

from msgspec.structs import replace

from ullage.cloud.api import CloudError, CloudProvider, CreateRequest, PoolRef
from ullage.errors import ApiError, NotFound
from ullage.kube.api import Deletion, KubeApi, MergePatch, Selection
from ullage.kube.edit import edit
from ullage.kube.objects.node import Node, Taint
from ullage.kube.objects.pod import Pod
from ullage.kube.resources import NODES, PODS
from ullage.model.pool_action import Deprovision, Doom, PoolAction, Provision, Spare
from ullage.model.pool_outcome import Bought, NotBought, PoolDone, PoolNotDone, PoolOutcome, PoolSetback
from ullage.model.provisioner import DELETION_TAINT, KEEP_ANNOTATION, STAY_BEHIND, Provisioner, labels_of

_OVER = ("Succeeded", "Failed")


class PoolHands:
    """Acts through one API and the providers of the pools."""

    def __init__(self, api: KubeApi, provider_of: Callable[[str], CloudProvider]) -> None:
        self._api = api
        self._provider_of = provider_of

    async def perform(self, provisioner: Provisioner, action: PoolAction) -> PoolOutcome:
        """Do it, or say why not."""
        try:
            match action:
                case Provision():
                    return await self._provision(provisioner, action)
                case Doom():
                    return await self._doom(action)
                case Spare():
                    return await self._spare(action)
                case Deprovision():
                    return await self._deprovision(provisioner, action)
                case _:
                    assert_never(action)
        except ApiError as error:
            if isinstance(action, Provision):
                return NotBought(action, None, error.message)
            return PoolNotDone(action, PoolSetback.API_FAILED, error.message)

    async def adopt(self, provisioner: Provisioner, node: str, zone: str) -> None:
        """Give a node the labels of its pool, where its machine did not. A node that is gone needs none."""
        labels = labels_of(provisioner, zone)
        try:
            await self._api.patch(NODES, node, MergePatch({"metadata": {"labels": labels}}))
        except NotFound:
            return

    async def _provision(self, provisioner: Provisioner, action: Provision) -> PoolOutcome:
        request = CreateRequest(
            pool=PoolRef(name=provisioner.name, parameters=provisioner.parameters),
            count=action.count,
            token=action.token,
            template=provisioner.template,
            labels=labels_of(provisioner, action.zone),
            least=max(1, action.least),
            zone=action.zone,
        )
        try:
            created = await self._provider_of(provisioner.provider).create(request)
        except CloudError as error:
            return NotBought(action, error.failure, error.message, error.retry_after)
        few = created.shortfall
        if few is None:
            return Bought(action, created.instances)
        return Bought(action, created.instances, few.failure, few.message)

    async def _doom(self, action: Doom) -> PoolOutcome:
        node = await self._edit(action.node, lambda node: node if _protected(node) else _doomed(node, action))
        if node is None:
            return PoolNotDone(action, PoolSetback.NODE_CHANGED, "the node is gone")
        if _protected(node):
            return PoolNotDone(action, PoolSetback.PROTECTED, f"it has the annotation {KEEP_ANNOTATION}")
        return PoolDone(action)

    async def _spare(self, action: Spare) -> PoolOutcome:
        node = await self._edit(action.node, _spared)
        return PoolDone(action) if node is not None else PoolNotDone(action, PoolSetback.NODE_CHANGED, "it is gone")

    async def _deprovision(self, provisioner: Provisioner, action: Deprovision) -> PoolOutcome:
        """Taint first, pods after: nobody can have come in between but those who tolerate everything."""
        if not action.instance:
            return PoolNotDone(action, PoolSetback.NO_INSTANCE, "no machine is known for it")
        uid = ""
        if action.node:
            node = await self._read(action.node)
            if node is not None:
                refused = await self._must_stay(node, action)
                if refused is not None:
                    return refused
                uid = node.metadata.uid
        try:
            await self._provider_of(provisioner.provider).delete([action.instance])
        except CloudError as error:
            return PoolNotDone(action, PoolSetback.CLOUD_FAILED, error.message)
        if uid:
            await self._delete_node(action.node, uid)
        return PoolDone(action)

    async def _must_stay(self, node: Node, action: Deprovision) -> PoolNotDone | None:
        if _protected(node):
            return PoolNotDone(action, PoolSetback.PROTECTED, f"it has the annotation {KEEP_ANNOTATION}")
        if not action.lost and not any(taint.key == DELETION_TAINT for taint in node.spec.taints):
            return PoolNotDone(action, PoolSetback.NODE_CHANGED, "its taint is gone")
        on_it = Selection(fields=f"spec.nodeName={node.metadata.name}")
        for pod in (await self._api.list(PODS, selection=on_it)).items:
            if _matters(pod):
                return PoolNotDone(
                    action, PoolSetback.OCCUPIED, f"{pod.metadata.namespace}/{pod.metadata.name} is on it"
                )
        return None

    async def _delete_node(self, name: str, uid: str) -> None:
        try:
            await self._api.delete(NODES, name, how=Deletion(uid=uid))
        except NotFound:
            return

    async def _read(self, name: str) -> Node | None:
        try:
            return await self._api.get(NODES, name)
        except NotFound:
            return None

    async def _edit(self, name: str, change: Callable[[Node], Node]) -> Node | None:
        try:
            return await edit(self._api, NODES, name, "", change)
        except NotFound:
            return None


def _protected(node: Node) -> bool:
    return node.metadata.annotations.get(KEEP_ANNOTATION) == "true"


def _doomed(node: Node, action: Doom) -> Node:
    if any(taint.key == DELETION_TAINT for taint in node.spec.taints):
        return node
    taint = Taint(key=DELETION_TAINT, value=str(ceil(action.delete_after)), effect="NoSchedule")
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))


def _spared(node: Node) -> Node:
    kept = tuple(taint for taint in node.spec.taints if taint.key != DELETION_TAINT)
    return replace(node, spec=replace(node.spec, taints=kept))


def _matters(pod: Pod) -> bool:
    owner = next((one.kind for one in pod.metadata.owner_references if one.controller), "")
    return owner not in STAY_BEHIND and pod.status.phase not in _OVER
