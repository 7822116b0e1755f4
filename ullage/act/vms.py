"""Perform the intents of the VM system: approvals on VM pods, migrations of VirtualMachines.

An approval holds only for the pod it was decided on: uid and resourceVersion are preconditions. It is written through
the pod's status, which is all the scheduler needs a right to. Every intent may be performed again. Nothing is decided
here.
"""

from typing import assert_never

from ullage import errors
from ullage.kube.client.api import Deletion, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.objects.pod import KubePod
from ullage.kube.read.vm import read_vm_migration, read_vm_pod
from ullage.kube.write.vm import approval_annotations, migration_annotations, migration_object, need_annotation
from ullage.model.intents import ApproveVm, DeleteMigration, RecordNodeNeed, StartMigration, VmIntent
from ullage.model.outcomes import (
    ApprovalWritten,
    MigrationDeleted,
    MigrationStarted,
    NodeNeedRecorded,
    VmIntentRefused,
    VmIntentUnknown,
    VmOutcome,
)

_REFUSED = (
    errors.NotFound,
    errors.AlreadyExists,
    errors.Conflict,
    errors.Invalid,
    errors.BadRequest,
    errors.Forbidden,
    errors.Unauthorized,
    errors.TooManyRequests,
)
"""Errors with which the server says that nothing was written."""
_MIGRATIONS: Resource[JsonObject] = VIRTUAL_MACHINE_MIGRATIONS.whole()


class VmActuator:
    """Actuator of VM intents, through one API. Safe to run for many at once."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def perform(self, intent: VmIntent) -> VmOutcome:
        """Perform one intent. Every end is an outcome."""
        try:
            return await self._perform(intent)
        except _REFUSED as error:
            return VmIntentRefused(intent, error.message)
        except errors.ApiError as error:
            return VmIntentUnknown(intent, error.message)

    async def _perform(self, intent: VmIntent) -> VmOutcome:
        match intent:
            case ApproveVm():
                return await self._approve(intent)
            case StartMigration():
                return await self._start(intent)
            case DeleteMigration():
                return await self._delete(intent)
            case RecordNodeNeed():
                return await self._record(intent)
            case _:
                assert_never(intent)

    async def _approve(self, intent: ApproveVm) -> VmOutcome:
        pod = intent.pod
        metadata = {
            "uid": pod.uid,
            "resourceVersion": pod.resource_version,
            "annotations": approval_annotations(intent.approved, intent.requested, intent.unit),
        }
        patch = MergePatch({"metadata": metadata})
        try:
            written = await self._api.patch(PODS, pod.key.name, patch, pod.key.namespace, subresource="status")
        except errors.Conflict as conflict:
            # A client that retries after a broken connection meets its own write.
            written = await self._api.get(PODS, pod.key.name, pod.key.namespace)
            if not _says(written, intent):
                return VmIntentRefused(intent, conflict.message)
        now = read_vm_pod(written)
        if now is None:
            return VmIntentRefused(intent, f"pod {pod.key} holds no room any more")
        return ApprovalWritten(intent, now)

    async def _start(self, intent: StartMigration) -> VmOutcome:
        namespace, vm = intent.vm.key
        noted = {"metadata": {"uid": intent.vm.uid, "annotations": migration_annotations(intent.at)}}
        await self._api.patch(VIRTUAL_MACHINES, vm, MergePatch(noted), namespace)
        try:
            await self._api.create(_MIGRATIONS, migration_object(namespace, intent.name, vm), namespace)
        except errors.AlreadyExists:
            return await self._found(intent)
        made = await self._api.get(VIRTUAL_MACHINE_MIGRATIONS, intent.name, namespace)
        return MigrationStarted(intent, read_vm_migration(made))

    async def _found(self, intent: StartMigration) -> VmOutcome:
        """Outcome where a migration of this name exists: it counts as started if it moves this VM and is not over."""
        made = await self._api.get(VIRTUAL_MACHINE_MIGRATIONS, intent.name, intent.vm.key.namespace)
        migration = read_vm_migration(made)
        if migration.vm != intent.vm.key.name or migration.phase.over:
            return VmIntentRefused(intent, f"VirtualMachineMigration {migration.key} is there and is another one")
        return MigrationStarted(intent, migration)

    async def _delete(self, intent: DeleteMigration) -> VmOutcome:
        key = intent.migration.key
        try:
            how = Deletion(uid=intent.migration.uid)
            await self._api.delete(VIRTUAL_MACHINE_MIGRATIONS, key.name, key.namespace, how=how)
        except (errors.NotFound, errors.Conflict):
            return MigrationDeleted(intent)
        return MigrationDeleted(intent)

    async def _record(self, intent: RecordNodeNeed) -> VmOutcome:
        namespace, vm = intent.vm.key
        patch = MergePatch({"metadata": {"uid": intent.vm.uid, "annotations": need_annotation(intent.since)}})
        await self._api.patch(VIRTUAL_MACHINES, vm, patch, namespace)
        return NodeNeedRecorded(intent)


def _says(raw: KubePod, intent: ApproveVm) -> bool:
    """True if the pod has the intent's uid and this approval already."""
    annotations = approval_annotations(intent.approved, intent.requested, intent.unit)
    meta = raw.metadata
    return meta.uid == intent.pod.uid and all(meta.annotations.get(key) == text for key, text in annotations.items())
