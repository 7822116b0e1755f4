"""Reserve: the room a pod needs in a node's ledger before it is bound there, and the first approval of a VM pod.

The scheduler's Filter asks `room_for_vm` and `room_for_ordinary` of each node, and Reserve asks once more at the bind.
"""

from ullage.model.vm import Vm, VmAmounts, VmRefusal
from ullage.model.vm_config import VmConfig
from ullage.state.vm_ledger import VmLedger


def vm_problem(vm: Vm | None, config: VmConfig) -> VmRefusal | None:
    """Reason that a VM can be placed on no node at all; None if there is none."""
    if vm is None:
        return VmRefusal.VM_MISSING
    if not vm.minimum.cpu or not vm.minimum.memory:
        return VmRefusal.VM_AMOUNTS_INVALID
    if not (vm.minimum.within(vm.use) and vm.use.within(vm.maximum)):
        return VmRefusal.VM_AMOUNTS_INVALID
    return VmRefusal.VM_SLOT_SIZE_MISMATCH if vm.memory_slot != config.slot.memory else None


def first_approval(ledger: VmLedger, vm: Vm) -> VmAmounts:
    """Amounts a pod of `vm` is bound with: the VM's use, and all that another pod of the VM may use.

    The target of a migration so has room for a permit that the agent on the source node has not applied yet.
    """
    amounts = vm.use
    for pod in ledger.pods_of(vm.key):
        amounts = amounts.at_least(ledger.account(pod.key).reserved)
    return amounts


def room_for_vm(ledger: VmLedger, node: str, vm: Vm) -> bool:
    """True if the node has room for a pod of this VM, and no other pod of it: a migration leads to another node."""
    if any(pod.node == node for pod in ledger.pods_of(vm.key)):
        return False
    return first_approval(ledger, vm).within(ledger.ledger(node).free)


def room_elsewhere(ledger: VmLedger, vm: Vm) -> bool:
    """True if some node without a pod of this VM has room for one."""
    amounts, homes = first_approval(ledger, vm), {pod.node for pod in ledger.pods_of(vm.key)}
    return any(amounts.within(ledger.ledger(node).free) for node in ledger.nodes() if node not in homes)


def room_for_ordinary(ledger: VmLedger, node: str, amounts: VmAmounts) -> bool:
    """True if the node has room for one more ordinary pod. All ordinary pods are rounded up together."""
    ordinary = ledger.ordinary_on(node)
    more = ledger.rounded(node, ordinary.plus(amounts)).above(ledger.rounded(node, ordinary))
    return more.within(ledger.ledger(node).free)
