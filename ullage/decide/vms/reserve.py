"""Room in VM ledgers, for migrations and as the plain form of the filter. VM pods: `decide.placement.vm_pods`."""

from ullage.decide.placement.vm_pods import first_approval
from ullage.model.vm import Vm, VmAmounts
from ullage.state.vm_ledger import VmLedger


def room_for_vm(ledger: VmLedger, node: str, vm: Vm) -> bool:
    """True if the node has room for a pod of this VM, and no other pod of it: a migration leads to another node."""
    if any(pod.node == node for pod in ledger.pods_of(vm.key)):
        return False
    return first_approval(ledger, vm).within(ledger.ledger(node).free)


def room_elsewhere(ledger: VmLedger, vm: Vm) -> bool:
    """True if some node without a pod of this VM has room for one below its watermark.

    Above it the VM would put the other node under pressure, and be moved on.
    """
    amounts, homes = first_approval(ledger, vm), {pod.node for pod in ledger.pods_of(vm.key)}
    return any(amounts.within(ledger.ledger(node).below_watermark) for node in ledger.nodes() if node not in homes)


def room_for_ordinary(ledger: VmLedger, node: str, amounts: VmAmounts) -> bool:
    """True if the node has room for one more ordinary pod. All ordinary pods are rounded up together."""
    ordinary = ledger.ordinary_on(node)
    more = ledger.rounded(node, ordinary.plus(amounts)).above(ledger.rounded(node, ordinary))
    return more.within(ledger.ledger(node).free)
