"""Perform steps of a pool: scale up, taint for deletion, untaint, terminate. Rechecks before deleting; no decisions."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from math import ceil
from typing import assert_never

from msgspec.structs import replace

from ullage.act.concurrency import each
from ullage.act.instance_deletes import MOST_DELETED, delete_all
from ullage.cloud.api import CloudError, CloudProvider, CreateRequest, OutcomeUnknown, PoolRef
from ullage.errors import ApiError, Conflict, NotFound
from ullage.kube.client.api import Deletion, KubeApi, ListSelector, MergePatch
from ullage.kube.client.edit import edit
from ullage.kube.client.resources import NODES, PODS
from ullage.kube.objects.node import KubeNode, KubeTaint
from ullage.kube.objects.pod import KubePod
from ullage.kube.read.cluster import read_node
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import PoolIntent, ScaleUp, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.outcomes import (
    LaunchFailed,
    NodesLaunched,
    PoolActionDone,
    PoolActionFailed,
    PoolFailure,
    PoolOutcome,
)
from ullage.model.provisioner import DELETION_TAINT, KEEP_ANNOTATIONS, STAY_BEHIND, Provisioner, is_kept, labels_of
from ullage.model.units import Seconds

_OVER = ("Succeeded", "Failed")
_KEPT = f"it has the annotation {' or '.join(KEEP_ANNOTATIONS)}"
_AT_ONCE = 16
"""Concurrent reads and deletes of Nodes."""

Incoming = Callable[[str, Collection[str]], Awaitable[ObjectKey | None]]
"""Pod that holds a GPU of this node and is not bound yet, read afresh. Pods of the given uids are left out."""


async def _nobody(_node: str, _here: Collection[str]) -> ObjectKey | None:
    return None


class PoolActuator:
    """Actuator of pool steps, through one API and the providers of the pools."""

    def __init__(
        self,
        api: KubeApi,
        provider_of: Callable[[str], CloudProvider],
        incoming: Incoming = _nobody,
    ) -> None:
        self._api = api
        self._provider_of = provider_of
        self._incoming = incoming

    async def perform(self, provisioner: Provisioner, action: PoolIntent) -> PoolOutcome:
        """Perform one step. Every end is an outcome."""
        try:
            match action:
                case ScaleUp():
                    return await self._provision(provisioner, action)
                case TaintForDeletion():
                    return await self._taint_for_deletion(action)
                case Untaint():
                    return await self._untaint(action)
                case TerminateInstance():
                    return (await self.deprovision(provisioner, [action]))[0]
                case _:
                    assert_never(action)
        except ApiError as error:
            if isinstance(action, ScaleUp):
                return LaunchFailed(action, None, error.message)
            return PoolActionFailed(action, PoolFailure.API_FAILED, error.message)

    async def adopt(self, provisioner: Provisioner, node: str, zone: str) -> None:
        """Add the labels of its pool to a node whose instance did not. A node that is gone is ignored."""
        labels = labels_of(provisioner, zone)
        try:
            await self._api.patch(NODES, node, MergePatch({"metadata": {"labels": labels}}))
        except NotFound:
            return

    async def _provision(self, provisioner: Provisioner, action: ScaleUp) -> PoolOutcome:
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
            return LaunchFailed(action, error.failure, error.message, Seconds(error.retry_after))
        few = created.shortfall
        if few is None:
            return NodesLaunched(action, created.instances)
        return NodesLaunched(action, created.instances, few.failure, few.message)

    async def _taint_for_deletion(self, action: TaintForDeletion) -> PoolOutcome:
        node = await self._edit(
            action.node, lambda node: node if _protected(node) else _with_deletion_taint(node, action)
        )
        if node is None:
            return PoolActionFailed(action, PoolFailure.NODE_CHANGED, "the node is gone")
        if _protected(node):
            return PoolActionFailed(action, PoolFailure.PROTECTED, _KEPT)
        return PoolActionDone(action)

    async def _untaint(self, action: Untaint) -> PoolOutcome:
        node = await self._edit(action.node, _without_deletion_taint)
        return (
            PoolActionDone(action)
            if node is not None
            else PoolActionFailed(action, PoolFailure.NODE_CHANGED, "it is gone")
        )

    async def deprovision(self, provisioner: Provisioner, actions: Sequence[TerminateInstance]) -> list[PoolOutcome]:
        """Delete instances, many in one call, and their Nodes. Each node is rechecked first; outcomes in order."""
        looked = dict(zip(actions, await each(actions, self._looked_at, at_once=_AT_ONCE), strict=True))
        ready = [action for action, found in looked.items() if isinstance(found, str)]
        outcomes: dict[TerminateInstance, PoolOutcome] = {
            action: PoolActionDone(action) if isinstance(found, str) else found for action, found in looked.items()
        }
        there = [action for action in ready if not action.gone]
        for begin in range(0, len(there), MOST_DELETED):
            outcomes |= await self._deleted(provisioner, there[begin : begin + MOST_DELETED])
        gone = [one for one in ready if isinstance(outcomes[one], PoolActionDone) and looked[one]]

        async def without_node(action: TerminateInstance) -> None:
            outcomes[action] = await self._without_node(action, str(looked[action]))

        await each(gone, without_node, at_once=_AT_ONCE)
        return [outcomes[action] for action in actions]

    async def _looked_at(self, action: TerminateInstance) -> PoolActionFailed | str:
        """Uid of the Node that may go with its instance, empty if there is no Node; or the failure that keeps it."""
        if not (action.instance or action.gone):
            return PoolActionFailed(action, PoolFailure.NO_INSTANCE, "no machine is known for it")
        if not action.node:
            return ""
        try:
            node = await self._read(action.node)
            if node is None and action.gone:
                return PoolActionFailed(action, PoolFailure.NODE_CHANGED, "it is gone")
            if node is None:
                return ""
            return await self._must_stay(node, action) or node.metadata.uid
        except ApiError as error:
            return PoolActionFailed(action, PoolFailure.API_FAILED, error.message)

    async def _deleted(
        self, provisioner: Provisioner, actions: Sequence[TerminateInstance]
    ) -> dict[TerminateInstance, PoolOutcome]:
        """Delete all in one call, or one call each if that is rejected."""
        provider = self._provider_of(provisioner.provider)
        errors = await delete_all(provider, [action.instance for action in actions])
        # Only an instance that is known to be gone takes its Node with it, and later it is in no list any more. Asked
        # again once: the nodes were looked at before, and a cloud that hangs would hold up the pool.
        unknown = [instance for instance, error in errors.items() if isinstance(error, OutcomeUnknown)]
        if unknown:
            errors |= await delete_all(provider, unknown)
        return {action: _deletion(action, errors[action.instance]) for action in actions}

    async def _without_node(self, action: TerminateInstance, uid: str) -> PoolOutcome:
        try:
            await self._api.delete(NODES, action.node, how=Deletion(uid=uid))
        except (NotFound, Conflict):
            return PoolActionDone(action)  # the Node is gone, or another one has its name
        except ApiError as error:
            deleted = bool(action.instance)
            return PoolActionFailed(action, PoolFailure.API_FAILED, error.message, instance_deleted=deleted)
        return PoolActionDone(action)

    async def _must_stay(self, node: KubeNode, action: TerminateInstance) -> PoolActionFailed | None:
        """Failure if the node may not be deleted. It was tainted before this read of its pods: only pods that tolerate
        every taint, or hold a Lease, can have come since."""
        if _protected(node):
            return PoolActionFailed(action, PoolFailure.PROTECTED, _KEPT)
        if not action.lost and not any(taint.key == DELETION_TAINT for taint in node.spec.taints):
            return PoolActionFailed(action, PoolFailure.NODE_CHANGED, "its taint is gone")
        if action.gone and read_node(node).ready:
            return PoolActionFailed(action, PoolFailure.NODE_CHANGED, "it is ready, so it has an instance")
        if action.gone and node.metadata.deletion_timestamp:
            return PoolActionFailed(action, PoolFailure.NODE_CHANGED, "it is being deleted, and a finalizer keeps it")
        on_it = ListSelector(fields=f"spec.nodeName={node.metadata.name}")
        here = (await self._api.list(PODS, selection=on_it)).items
        there = next((pod.metadata for pod in here if _matters(pod)), None)
        if there is not None:
            return PoolActionFailed(action, PoolFailure.OCCUPIED, f"{there.namespace}/{there.name} is on it")
        incoming = await self._incoming(node.metadata.name, {pod.metadata.uid for pod in here})
        if incoming is not None:
            return PoolActionFailed(
                action, PoolFailure.OCCUPIED, f"{incoming} holds a GPU of it and is about to be bound"
            )
        return None

    async def _read(self, name: str) -> KubeNode | None:
        try:
            return await self._api.get(NODES, name)
        except NotFound:
            return None

    async def _edit(self, name: str, change: Callable[[KubeNode], KubeNode]) -> KubeNode | None:
        try:
            return await edit(self._api, NODES, name, "", change)
        except NotFound:
            return None


def _deletion(action: TerminateInstance, error: CloudError | None) -> PoolOutcome:
    if error is None:
        return PoolActionDone(action)
    return PoolActionFailed(action, PoolFailure.CLOUD_FAILED, error.message, Seconds(error.retry_after))


def _protected(node: KubeNode) -> bool:
    return is_kept(node.metadata.annotations)


def _with_deletion_taint(node: KubeNode, action: TaintForDeletion) -> KubeNode:
    if any(taint.key == DELETION_TAINT for taint in node.spec.taints):
        return node
    taint = KubeTaint(key=DELETION_TAINT, value=str(ceil(action.delete_after)), effect="NoSchedule")
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))


def _without_deletion_taint(node: KubeNode) -> KubeNode:
    kept = tuple(taint for taint in node.spec.taints if taint.key != DELETION_TAINT)
    return replace(node, spec=replace(node.spec, taints=kept))


def _matters(pod: KubePod) -> bool:
    owner = next((one.kind for one in pod.metadata.owner_references if one.controller), "")
    return owner not in STAY_BEHIND and pod.status.phase not in _OVER
