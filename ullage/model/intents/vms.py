"""Intents of VM scheduling."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordNodeNeed:
    """Note on a VirtualMachine since when it needs a new node, or that it needs none any more (None)."""

    vm: Vm
    since: Instant | None
    why: str


VmIntent = ApproveVm | StartMigration | DeleteMigration | RecordNodeNeed
