"""Intents of the VM system and their outcomes. Frozen; each intent says why. `act.vms` performs them."""

from dataclasses import dataclass

from ullage.model.units import Instant
from ullage.model.vm import Vm, VmAmounts, VmMigration, VmPod


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveVm:
    """Write approval, request and unit to a VM pod. `pod` is the pod as it was decided on."""

    pod: VmPod
    approved: VmAmounts
    requested: VmAmounts
    unit: VmAmounts | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartMigration:
    """Note the time on the VirtualMachine, then create the VirtualMachineMigration `name`."""

    vm: Vm
    pod: VmPod
    name: str
    at: Instant
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMigration:
    """Delete a VirtualMachineMigration of ours that is over: its name is free for the next one."""

    migration: VmMigration
    why: str


VmIntent = ApproveVm | StartMigration | DeleteMigration


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
class VmIntentRefused:
    """Nothing was changed, for certain; of a migration at most the time on the VirtualMachine."""

    intent: VmIntent
    detail: str


@dataclass(frozen=True, slots=True)
class VmIntentUnknown:
    """The outcome is unknown. The object has to be read before the next decision on it."""

    intent: VmIntent
    detail: str


VmOutcome = ApprovalWritten | MigrationStarted | MigrationDeleted | VmIntentRefused | VmIntentUnknown
