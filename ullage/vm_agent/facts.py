"""Facts of the vm-agent: VirtualMachines with the size that is plugged in, and the pods of this node that run them."""

import msgspec

from ullage.errors import Unreadable
from ullage.kube.objects.vm import KubeVirtualMachine, KubeVmPod
from ullage.kube.read.vm import is_migration_target, read_vm
from ullage.model.fact_event import ObjectKey
from ullage.model.quantity import quantity
from ullage.model.vm import VM_NAME, Vm, VmAmounts, VmPhase

_CORE = 1000


class GuestVm(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One VirtualMachine as the agent reads it."""

    vm: Vm
    phase: VmPhase
    pod: str
    """Pod that runs it; empty before there is one."""
    plugged: VmAmounts | None = None
    """Size the machine has by its controller. None where the controller does not report it."""

    @property
    def using(self) -> VmAmounts:
        """Size the VM may have by now: what is written, and what is not unplugged yet."""
        return self.vm.use if self.plugged is None else self.vm.use.at_least(self.plugged)


class GuestPod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One VM pod of this node."""

    key: ObjectKey
    uid: str
    vm: ObjectKey
    address: str
    """Empty until the pod has an address."""
    runs: bool
    """The VM runs in this pod: it is Running and no target of a migration."""


def read_guest_vm(raw: KubeVirtualMachine) -> GuestVm:
    """Read a VirtualMachine. Raises Unreadable."""
    vm, status = read_vm(raw), raw.status
    try:
        phase = VmPhase(status.phase)
        plugged = None
        if status.cpus is not None and status.memory_size is not None:
            plugged = VmAmounts(int(quantity(status.cpus) * _CORE), int(quantity(status.memory_size)))
    except ValueError as error:
        raise Unreadable(f"VirtualMachine {vm.key}: status: {error}") from error
    return GuestVm(vm=vm, phase=phase, pod=status.pod_name, plugged=plugged)


def read_guest_pod(raw: KubeVmPod) -> GuestPod | None:
    """Read a VM pod; None for others."""
    meta = raw.metadata
    name = meta.labels.get(VM_NAME, "")
    if not name:
        return None
    leaves = meta.deletion_timestamp is not None
    return GuestPod(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        vm=ObjectKey(meta.namespace, name),
        address=raw.status.pod_ip,
        runs=raw.status.phase == "Running" and not leaves and not is_migration_target(meta),
    )
