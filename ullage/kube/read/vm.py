"""VirtualMachines, their pods and migrations, and ordinary pods as the VM ledger counts them."""

from collections.abc import Mapping

import msgspec

from ullage.errors import Unreadable
from ullage.kube.client.resources import VIRTUAL_MACHINE_MIGRATIONS
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import Container, KubePod
from ullage.kube.objects.vm import KubeVirtualMachine, KubeVirtualMachineMigration
from ullage.kube.read.field_error import within
from ullage.kube.read.requests import amounts, pod_requests
from ullage.kube.timestamps import read_time
from ullage.model.fact_event import ObjectKey
from ullage.model.quantity import quantity
from ullage.model.units import Instant
from ullage.model.vm import (
    CREATED_BY_SCHEDULER,
    MIGRATION_ENABLED,
    SCALING_ENABLED,
    VM_APPROVED,
    VM_LAST_MIGRATION,
    VM_NAME,
    VM_NEEDS_NODE,
    VM_REQUESTED,
    VM_UNIT,
    MigrationPhase,
    OrdinaryPod,
    Vm,
    VmAmounts,
    VmMarks,
    VmMigration,
    VmPod,
)

_CORE = 1000
_MILLI = 1000
_LARGEST = (1 << 63) - 1
_OVER = ("Succeeded", "Failed")


class _Written(msgspec.Struct, frozen=True, gc=False):
    """Amounts in an annotation."""

    cpu: int | str
    memory: int | str


_decode_written = msgspec.json.Decoder(_Written).decode


def read_vm(raw: KubeVirtualMachine) -> Vm:
    """A VirtualMachine's facts. Amounts in a wrong order are facts too: `decide.vms.reserve` refuses them."""
    meta, guest = raw.metadata, raw.spec.guest
    try:
        with within("spec.guest.memorySlotSize"):
            slot = _whole(guest.memory_slot_size, 1)
            if slot == 0:
                raise ValueError("must be more than 0")
        sizes = {}
        for name in ("min", "use", "max"):
            with within(f"spec.guest.cpus.{name}"):
                cpu = _whole(getattr(guest.cpus, name), _CORE)
            sizes[name] = VmAmounts(cpu, getattr(guest.memory_slots, name) * slot)
    except ValueError as error:
        raise Unreadable(f"VirtualMachine {meta.namespace}/{meta.name}: {error}") from error
    return Vm(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        minimum=sizes["min"],
        use=sizes["use"],
        maximum=sizes["max"],
        memory_slot=slot,
        scaling=meta.labels.get(SCALING_ENABLED) == "true",
        migratable=meta.labels.get(MIGRATION_ENABLED) == "true",
        last_migration=_seconds(meta.annotations.get(VM_LAST_MIGRATION, "")),
        needs_node=_seconds(meta.annotations.get(VM_NEEDS_NODE, "")),
        resource_version=meta.resource_version,
    )


def is_vm_pod(raw: KubePod) -> bool:
    return bool(raw.metadata.labels.get(VM_NAME))


def read_vm_marks(meta: ObjectMeta) -> VmMarks | None:
    """Marks of a VM pod; None for other pods. A malformed annotation reads as not set."""
    name = meta.labels.get(VM_NAME)
    if not name:
        return None
    return VmMarks(
        name=name,
        approved=read_amounts(meta.annotations.get(VM_APPROVED, "")),
        requested=read_amounts(meta.annotations.get(VM_REQUESTED, "")),
        unit=read_amounts(meta.annotations.get(VM_UNIT, "")),
        incoming=is_migration_target(meta),
    )


def read_vm_pod(raw: KubePod) -> VmPod | None:
    """Read a VM pod that holds resources on a node; None for others. A malformed annotation reads as not set."""
    meta = raw.metadata
    marks = read_vm_marks(meta)
    if marks is None or not _holds_room(raw):
        return None
    try:
        created, requests = read_time(meta.creation_timestamp), _ledger_amounts(pod_requests(raw.spec))
    except ValueError as error:
        raise Unreadable(f"pod {meta.namespace}/{meta.name}: {error}") from error
    return VmPod(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        node=raw.spec.node_name,
        vm=marks.name,
        created=Instant(created),
        requests=requests,
        approved=marks.approved,
        requested=marks.requested,
        unit=marks.unit,
        incoming=marks.incoming,
        resource_version=meta.resource_version,
    )


def read_ordinary_pod(raw: KubePod) -> OrdinaryPod | None:
    """Any other pod that holds room on a node: its requests, and limits where a request is missing."""
    meta = raw.metadata
    if is_vm_pod(raw) or not _holds_room(raw):
        return None
    try:
        needed = _ledger_amounts(pod_requests(raw.spec, _requests_or_limits))
    except ValueError as error:
        raise Unreadable(f"pod {meta.namespace}/{meta.name}: {error}") from error
    return OrdinaryPod(key=ObjectKey(meta.namespace, meta.name), node=raw.spec.node_name, amounts=needed)


def read_vm_migration(raw: KubeVirtualMachineMigration) -> VmMigration:
    """A VirtualMachineMigration's facts."""
    meta = raw.metadata
    try:
        phase = MigrationPhase(raw.status.phase)
    except ValueError as error:
        raise Unreadable(
            f"VirtualMachineMigration {meta.namespace}/{meta.name}: status.phase: {raw.status.phase!r} is not a phase"
        ) from error
    return VmMigration(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        vm=raw.spec.vm_name,
        phase=phase,
        source_pod=raw.status.source_pod_name,
        ours=meta.labels.get(CREATED_BY_SCHEDULER) == "true",
    )


def read_amounts(text: str) -> VmAmounts | None:
    """Amounts in an annotation, or None where they cannot be read."""
    try:
        written = _decode_written(text)
        return VmAmounts(_whole(written.cpu, _CORE), _whole(written.memory, 1))
    except (msgspec.DecodeError, ValueError):
        return None


def _holds_room(raw: KubePod) -> bool:
    return bool(raw.spec.node_name) and raw.status.phase not in _OVER


def is_migration_target(meta: ObjectMeta) -> bool:
    """The migration itself owns its target pod, as controller, until it is over."""
    kind = VIRTUAL_MACHINE_MIGRATIONS.kind
    return any(owner.kind == kind and owner.controller for owner in meta.owner_references)


def _requests_or_limits(container: Container) -> dict[str, int]:
    return amounts({**container.resources.limits, **container.resources.requests})


def _ledger_amounts(thousandths: Mapping[str, int]) -> VmAmounts:
    return VmAmounts(thousandths.get("cpu", 0), -(-thousandths.get("memory", 0) // _MILLI))


def _whole(raw: int | str, scale: int) -> int:
    """A quantity in whole units of 1/scale, rounded up."""
    exact = quantity(raw) * scale
    if not 0 <= exact <= _LARGEST:
        raise ValueError(f"{raw!r} is out of range")
    return -int(-exact // 1)


def _seconds(text: str) -> Instant | None:
    return Instant(float(text)) if text.isdecimal() and len(text) < 12 else None
