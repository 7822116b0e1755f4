"""VirtualMachine and VirtualMachineMigration: the fields that the scheduler and the vm-agent read.

The kinds belong to their VM controller. Definitions for tests and the demo are made from these structs, with unknown
fields kept: `ullage.kube.crds.catalog`.
"""

from typing import Annotated

from msgspec import field

from ullage.kube.crds.marks import BYTES, OBJECT_NAME, OPEN, QUANTITY, REQUIRED, at_least, between, length, one_of
from ullage.kube.objects import KubeStruct
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import KubePod, PodStatus
from ullage.model.vm import MigrationPhase, VmPhase

Cores = Annotated[int | str, QUANTITY]
MOST_SLOTS = 512
Slots = Annotated[int, between(1, MOST_SLOTS)]


class GuestCpus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """CPUs of the VM, such as 2 or 250m."""

    min: Annotated[Cores, REQUIRED] = 0
    """The fewest it runs with."""
    use: Annotated[Cores, REQUIRED] = 0
    """As many as it has now. Written by the vm-agent."""
    max: Annotated[Cores, REQUIRED] = 0
    """The most it can be given."""


class GuestMemorySlots(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Memory of the VM, in slots."""

    min: Annotated[Slots, REQUIRED] = 0
    """The fewest it runs with."""
    use: Annotated[Slots, REQUIRED] = 0
    """As many as it has now. Written by the vm-agent."""
    max: Annotated[Slots, REQUIRED] = 0
    """The most it can be given."""


class VmGuest(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Size of the virtual machine."""

    cpus: Annotated[GuestCpus, REQUIRED] = field(default_factory=GuestCpus)
    memory_slot_size: Annotated[int | str, BYTES] = "1Gi"
    """Bytes of one memory slot."""
    memory_slots: Annotated[GuestMemorySlots, REQUIRED] = field(default_factory=GuestMemorySlots)


class VirtualMachineSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Desired state of the VM."""

    scheduler_name: Annotated[str, length(0, 253)] = ""
    """Scheduler of its pods."""
    guest: Annotated[VmGuest, REQUIRED, OPEN] = field(default_factory=VmGuest)


class VirtualMachineStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Current state of the VM. Written by its controller."""

    phase: Annotated[str, one_of(VmPhase)] = ""
    """Phase of the VM: Running, a phase before it, or Migrating during a live migration."""
    pod_name: Annotated[str, length(0, 253)] = ""
    """Pod that runs the VM."""
    node: Annotated[str, length(0, 253)] = ""
    """Node of that pod."""
    cpus: Annotated[Cores | None, QUANTITY] = None
    """Cores plugged in."""
    memory_size: Annotated[int | str | None, BYTES] = None
    """Memory plugged in."""


class KubeVirtualMachine(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A virtual machine that can be resized while it runs."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: Annotated[VirtualMachineSpec, OPEN]
    status: Annotated[VirtualMachineStatus, OPEN] = field(default_factory=VirtualMachineStatus)


class VirtualMachineMigrationSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Desired migration."""

    vm_name: Annotated[str, REQUIRED, OBJECT_NAME] = ""
    """VirtualMachine to migrate, in this namespace."""
    prevent_migration_to_same_host: bool = True
    """Place the target pod on another node."""
    completion_timeout: Annotated[int, at_least(1)] = 3600
    """Seconds until the migration is given up."""
    incremental: bool = True
    """Copy only memory that has changed since the last round."""
    auto_converge: bool = True
    """Slow the VM down where it changes memory faster than it is copied."""
    max_bandwidth: Annotated[int | str, BYTES] = "1Gi"
    """Maximum bandwidth in bytes per second."""
    allow_post_copy: bool = False
    """Run on the target before all memory is there."""


class VirtualMachineMigrationStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Current state of the migration. Written by the VM controller."""

    phase: Annotated[str, one_of(MigrationPhase)] = ""
    source_pod_name: Annotated[str, length(0, 253)] = ""
    target_pod_name: Annotated[str, length(0, 253)] = ""
    source_node: Annotated[str, length(0, 253)] = ""
    target_node: Annotated[str, length(0, 253)] = ""


class KubeVirtualMachineMigration(KubeStruct, frozen=True, gc=False, kw_only=True):
    """One live migration of a VirtualMachine to another node."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: Annotated[VirtualMachineMigrationSpec, OPEN]
    status: Annotated[VirtualMachineMigrationStatus, OPEN] = field(default_factory=VirtualMachineMigrationStatus)


class VmPodStatus(PodStatus, frozen=True, gc=False, kw_only=True):
    """Status of a VM pod with the address of the machine in it."""

    pod_ip: str = field(default="", name="podIP")


class KubeVmPod(KubePod, frozen=True, gc=False, kw_only=True):
    """A VM pod as its node's vm-agent reads it."""

    status: VmPodStatus = field(default_factory=VmPodStatus)
