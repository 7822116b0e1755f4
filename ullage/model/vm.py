"""Live-resizable VMs: amounts, facts of VMs, their pods and migrations, ledger rows, permits. Frozen; docs/vms.md.

CPU is in thousandths of a core, memory in bytes. Sums over these facts are in `state.vm_ledger`, judgement is in
`decide.vms`. Node configuration is in `model.vm_config`.
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant

VM_NAME = "vm.neon.tech/name"
"""Label of a VM pod: its VirtualMachine."""
SCALING_ENABLED = "autoscaling.neon.tech/enabled"
MIGRATION_ENABLED = "autoscaling.neon.tech/auto-migration-enabled"
CREATED_BY_SCHEDULER = "autoscaling.neon.tech/created-by-scheduler"
"""Label of a VirtualMachineMigration of ours."""
VM_APPROVED = "gpu.scheduling/vm-approved"
VM_REQUESTED = "gpu.scheduling/vm-requested"
VM_UNIT = "gpu.scheduling/vm-unit"
"""Annotations of a VM pod. Written by the scheduler alone."""
VM_LAST_MIGRATION = "gpu.scheduling/vm-last-migration"
VM_NEEDS_NODE = "gpu.scheduling/vm-needs-node"
"""Annotations of a VirtualMachine: Unix seconds."""


class VmAmounts(msgspec.Struct, frozen=True, gc=False):
    """CPU and memory of a VM, or of a part of one."""

    cpu: int
    memory: int

    def plus(self, other: "VmAmounts") -> "VmAmounts":
        return VmAmounts(self.cpu + other.cpu, self.memory + other.memory)

    def above(self, other: "VmAmounts") -> "VmAmounts":
        """Part beyond `other`, per resource; never negative."""
        return VmAmounts(max(0, self.cpu - other.cpu), max(0, self.memory - other.memory))

    def at_least(self, other: "VmAmounts") -> "VmAmounts":
        """Larger of the two, per resource."""
        return VmAmounts(max(self.cpu, other.cpu), max(self.memory, other.memory))

    def at_most(self, other: "VmAmounts") -> "VmAmounts":
        """Smaller of the two, per resource."""
        return VmAmounts(min(self.cpu, other.cpu), min(self.memory, other.memory))

    def within(self, other: "VmAmounts") -> bool:
        """True if neither resource is above `other`."""
        return self.cpu <= other.cpu and self.memory <= other.memory

    def times(self, count: int) -> "VmAmounts":
        return VmAmounts(self.cpu * count, self.memory * count)

    def __bool__(self) -> bool:
        return self.cpu != 0 or self.memory != 0


NOTHING = VmAmounts(0, 0)


class GrantMode(StrEnum):
    """Form of a grant where a request does not fit."""

    PER_RESOURCE = "per-resource"
    JOINT = "joint"
    """Both resources by the same number of compute units."""


class RestartRule(StrEnum):
    """Treatment of approvals found on pods after a restart."""

    TRUST_APPROVED = "trust-approved"
    ASSUME_MAX = "assume-max"
    """No approval is believed before the first message of the VM's agent."""


class VmRefusal(StrEnum):
    """Reasons to refuse an agent's message, in the order they are checked."""

    CALLER_REFUSED = "CallerRefused"
    """The sender has no valid token of an agent."""
    NOT_LEADER = "NotLeader"
    METHOD_NOT_POST = "MethodNotPost"
    BAD_JSON = "BadJson"
    VERSION_INVALID = "VersionInvalid"
    VERSION_MISMATCH = "VersionMismatch"
    METRICS_MISSING = "MetricsMissing"
    UNIT_ZERO = "UnitZero"
    METRICS_INCOMPLETE = "MetricsIncomplete"
    POD_NOT_FOUND = "PodNotFound"
    POD_NOT_PLACED = "PodNotPlaced"
    POD_ON_OTHER_NODE = "PodOnOtherNode"
    POD_NOT_A_VM = "PodNotAVm"
    UNIT_NOT_IN_SLOTS = "UnitNotInSlots"
    MIGRATING = "Migrating"
    UNIT_MISMATCH = "UnitMismatch"
    WRITE_FAILED = "WriteFailed"
    INTERNAL = "Internal"


class Vm(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one VirtualMachine."""

    key: ObjectKey
    uid: str
    minimum: VmAmounts
    use: VmAmounts
    """Current size, as its object says. The agent writes it."""
    maximum: VmAmounts
    memory_slot: int
    """Bytes of one memory slot."""
    scaling: bool = True
    """An agent resizes it. Without one it counts by its `use`."""
    migratable: bool = False
    last_migration: Instant | None = None
    """Instant at which its last migration was started."""
    needs_node: Instant | None = None
    """Instant since which it would be migrated, if there were a node with room for it. Demand for a new node."""
    resource_version: str = ""


class VmPod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one pod that runs a VM and holds room on a node."""

    key: ObjectKey
    uid: str
    node: str
    vm: str
    """Name of its VirtualMachine, in the pod's namespace."""
    created: Instant
    requests: VmAmounts
    """Requests of its containers: its size while no VirtualMachine is known."""
    approved: VmAmounts | None = None
    """Largest amount the VM may use here. None where the annotation is missing or cannot be read.

    Anybody who may edit the pod may have written it: `VmLedger.admitted`."""
    requested: VmAmounts | None = None
    """Last amounts its agent asked for."""
    unit: VmAmounts | None = None
    """Compute unit its agent was last told."""
    incoming: bool = False
    """Target of a migration: the VM still runs in another pod."""
    resource_version: str = ""

    @property
    def vm_key(self) -> ObjectKey:
        return ObjectKey(self.key.namespace, self.vm)


class VmMarks(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of a VM pod beyond those of every pod: its VM, and the annotations of the scheduler."""

    name: str
    """Name of its VirtualMachine, in the pod's namespace."""
    approved: VmAmounts | None = None
    requested: VmAmounts | None = None
    unit: VmAmounts | None = None
    incoming: bool = False
    """Target of a migration: the VM still runs in another pod."""


class OrdinaryPod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Pod without a VM, as the ledger counts it: its requests, or limits where a request is missing."""

    key: ObjectKey
    node: str
    amounts: VmAmounts


class VmPhase(StrEnum):
    """Phase of a VirtualMachine, in the words of its controller."""

    NEW = ""
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    PRE_MIGRATING = "PreMigrating"
    MIGRATING = "Migrating"
    SCALING = "Scaling"

    @property
    def migrating(self) -> bool:
        return self in (VmPhase.PRE_MIGRATING, VmPhase.MIGRATING)


class MigrationPhase(StrEnum):
    """Phase of a VirtualMachineMigration, in the words of its controller."""

    NEW = ""
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def over(self) -> bool:
        return self in (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)


class VmMigration(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one VirtualMachineMigration."""

    key: ObjectKey
    uid: str
    vm: str
    phase: MigrationPhase
    source_pod: str = ""
    """Empty until the controller has written it."""
    ours: bool = True
    """Created by the scheduler, which deletes it when it is over."""

    @property
    def vm_key(self) -> ObjectKey:
        return ObjectKey(self.key.namespace, self.vm)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One resource of one node. Every number is derived from objects; `reserved - buffer <= total`."""

    total: int
    system: int
    watermark: int
    reserved: int
    buffer: int
    capacity_pressure: int
    pressure_accounted_for: int

    @property
    def reservable(self) -> int:
        return self.total - self.system

    @property
    def free(self) -> int:
        """Room that can be granted. 0 where more is reserved than may be."""
        return max(0, self.reservable - self.reserved)

    @property
    def logical_pressure(self) -> int:
        return max(0, self.reserved - self.watermark)


@dataclass(frozen=True, slots=True)
class NodeLedger:
    """Both rows of one node."""

    cpu: LedgerRow
    memory: LedgerRow

    @property
    def too_small(self) -> bool:
        """True if the system reserve leaves not one slot of a resource."""
        return not self.cpu.reservable or not self.memory.reservable

    @property
    def free(self) -> VmAmounts:
        return VmAmounts(self.cpu.free, self.memory.free)

    @property
    def below_watermark(self) -> VmAmounts:
        """Room up to the watermarks."""
        cpu, memory = self.cpu, self.memory
        return VmAmounts(max(0, cpu.watermark - cpu.reserved), max(0, memory.watermark - memory.reserved))

    @property
    def reserved(self) -> VmAmounts:
        return VmAmounts(self.cpu.reserved, self.memory.reserved)


class VmAccount(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One VM pod's part of its node's ledger."""

    reserved: VmAmounts
    buffer: VmAmounts = NOTHING
    capacity_pressure: VmAmounts = NOTHING
    migrating: bool = False
    known: bool = True
    """Its approval is known; else `reserved` is its maximum."""

    @property
    def held(self) -> VmAmounts:
        """Amount in use for certain."""
        return self.reserved.above(self.buffer)

    @property
    def accounted_for(self) -> VmAmounts:
        """Pressure that goes when this pod goes."""
        return self.reserved.plus(self.capacity_pressure) if self.migrating else NOTHING


@dataclass(frozen=True, slots=True)
class Permit:
    """Answer to a request: amounts granted and denied, and why."""

    granted: VmAmounts
    denied: VmAmounts
    why: str
