"""VM annotations, sizes and migrations as the API server takes them."""

from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import VIRTUAL_MACHINE_MIGRATIONS
from ullage.model.quantity import bytes_text, cores_text
from ullage.model.units import Instant
from ullage.model.vm import (
    CREATED_BY_SCHEDULER,
    VM_APPROVED,
    VM_LAST_MIGRATION,
    VM_NEEDS_NODE,
    VM_REQUESTED,
    VM_UNIT,
    VmAmounts,
)


def amounts_text(amounts: VmAmounts) -> str:
    """Amounts for an annotation."""
    return f'{{"cpu":"{cores_text(amounts.cpu)}","memory":"{bytes_text(amounts.memory)}"}}'


def approval_annotations(
    approved: VmAmounts, requested: VmAmounts | None = None, unit: VmAmounts | None = None
) -> dict[str, str]:
    """Annotations of a VM pod; those that say nothing are left out."""
    said = {VM_APPROVED: approved, VM_REQUESTED: requested, VM_UNIT: unit}
    return {name: amounts_text(amounts) for name, amounts in said.items() if amounts is not None}


def migration_annotations(now: Instant) -> dict[str, str | None]:
    """Annotations of a VirtualMachine whose migration is about to be created: it needs no new node any more."""
    return {VM_LAST_MIGRATION: str(int(now)), **need_annotation(None)}


def need_annotation(since: Instant | None) -> dict[str, str | None]:
    """Annotation of a VirtualMachine that needs a new node, or none any more."""
    return {VM_NEEDS_NODE: None if since is None else str(int(since))}


def migration_object(namespace: str, name: str, vm: str) -> JsonObject:
    """A VirtualMachineMigration to create. All but the VM is left to the defaults of its kind."""
    return {
        "apiVersion": VIRTUAL_MACHINE_MIGRATIONS.api_version,
        "kind": VIRTUAL_MACHINE_MIGRATIONS.kind,
        "metadata": {"namespace": namespace, "name": name, "labels": {CREATED_BY_SCHEDULER: "true"}},
        "spec": {"vmName": vm, "preventMigrationToSameHost": True},
    }


def guest_size(target: VmAmounts, memory_slot: int) -> JsonObject:
    """A merge patch that gives a VirtualMachine another size."""
    use = {"cpus": {"use": _cores(target.cpu)}, "memorySlots": {"use": target.memory // memory_slot}}
    return {"spec": {"guest": use}}


def _cores(thousandths: int) -> int | str:
    return thousandths // 1000 if thousandths % 1000 == 0 else cores_text(thousandths)
