"""Outcomes of intents of VM scheduling."""

from dataclasses import dataclass

from ullage.model.intents import ApproveVm, DeleteMigration, RecordNodeNeed, StartMigration, VmIntent
from ullage.model.vm import VmMigration, VmPod


@dataclass(frozen=True, slots=True)
class ApprovalWritten:
    intent: ApproveVm
    pod: VmPod
    """Pod after the write."""


@dataclass(frozen=True, slots=True)
class MigrationStarted:
    intent: StartMigration
    migration: VmMigration


@dataclass(frozen=True, slots=True)
class MigrationDeleted:
    """The migration is gone; another client may have deleted it."""

    intent: DeleteMigration


@dataclass(frozen=True, slots=True)
class NodeNeedRecorded:
    intent: RecordNodeNeed


@dataclass(frozen=True, slots=True)
class VmIntentRefused:
    """Nothing was changed, for certain; of a migration at most the time on the VirtualMachine."""

    intent: VmIntent
    detail: str


@dataclass(frozen=True, slots=True)
class VmIntentUnknown:
    """The outcome is unknown. The object has to be read before the next decision on it."""

    intent: VmIntent
    detail: str


VmOutcome = ApprovalWritten | MigrationStarted | MigrationDeleted | NodeNeedRecorded | VmIntentRefused | VmIntentUnknown
