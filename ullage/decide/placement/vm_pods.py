"""VM pods before nodes are filtered: the room one needs, or the reason that it fits nowhere. Rules: docs/vms.md."""

from msgspec.structs import replace

from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Phase, Pod
from ullage.model.quantity import bytes_text, cores_text
from ullage.model.selector import Operator
from ullage.model.shape import Shape, interned
from ullage.model.verdict import Reason, Verdict
from ullage.model.vm import Vm, VmAmounts
from ullage.model.vm_config import VmConfig
from ullage.state.snapshot import ClusterSnapshot
from ullage.state.vm_ledger import VmLedger
from ullage.state.vm_room import ledger_amounts

MOVED = "~moved"
"""End of the name of a pod that is supposed: no object has it."""


def with_vm(pod: Pod, snapshot: ClusterSnapshot) -> Pod | Verdict:
    """VM pod with the room it needs in its shape and its first approval; or the verdict that its VM fits nowhere.

    Ordinary pods are returned as they are.
    """
    if pod.vm is None:
        return pod
    key, room = ObjectKey(pod.key.namespace, pod.vm.name), snapshot.vms
    if not room.active:
        return Verdict(Reason.VM_MISSING, f"VirtualMachine {key} is not there: the cluster does not serve its kind")
    vm = room.ledger.vm(key)
    problem = vm_problem(vm, room.config)
    if vm is None or problem is not None:
        return Verdict(problem or Reason.VM_MISSING, _detail(key, vm, room.config))
    amounts = first_approval(room.ledger, vm)
    homes = tuple(sorted({one.node for one in room.ledger.pods_of(key) if one.uid != pod.uid}))
    shape = interned(replace(pod.shape, vm=amounts, vm_elsewhere=homes))
    return replace(pod, shape=shape, vm=replace(pod.vm, approved=amounts))


def moved_vm(pod: Pod, snapshot: ClusterSnapshot) -> Pod | None:
    """VM pod as the target of a migration that is not decided yet, under a name of its own; None if it fits nowhere.

    It needs all that the VM may use where it is now, and fits below watermarks only: above one, a node would be under
    pressure at once and move VMs on.
    """
    key = ObjectKey(pod.key.namespace, f"{pod.key.name}{MOVED}")
    target = replace(pod, key=key, uid=f"{pod.uid}{MOVED}", node="", phase=Phase.PENDING, nominated="")
    ready = with_vm(replace(target, shape=_anywhere(pod.shape)), snapshot)
    if not isinstance(ready, Pod):
        return None
    return replace(ready, shape=interned(replace(ready.shape, vm_watermark=True)))


def moving_vm(pod: Pod, snapshot: ClusterSnapshot) -> Pod | Verdict:
    """VM pod that was taken off its node, as it is to be placed elsewhere: with all that it may use, below watermarks.

    Where its approval is not known it may use its maximum.
    """
    ready, ledger = with_vm(replace(pod, shape=_anywhere(pod.shape)), snapshot), snapshot.vms.ledger
    vm = None if pod.vm is None else ledger.vm(ObjectKey(pod.key.namespace, pod.vm.name))
    if not isinstance(ready, Pod) or vm is None or ready.vm is None or ready.shape.vm is None or pod.vm is None:
        return ready
    amounts = ready.shape.vm
    if vm.scaling:
        amounts = amounts.at_least(ledger.admitted(vm, pod.vm.approved) or ledger.largest(vm))
    shape = interned(replace(ready.shape, vm=amounts, vm_watermark=True))
    return replace(ready, shape=shape, vm=replace(ready.vm, approved=amounts))


def _anywhere(shape: Shape) -> Shape:
    """Shape without nodes it is kept off by name: a migration says so of its target, and only while it lasts."""
    terms = tuple(
        replace(term, fields=tuple(one for one in term.fields if one.operator is not Operator.NOT_IN))
        for term in shape.node_affinity or ()
    )
    free = any(not term.fields and not term.labels for term in terms)
    return shape if not terms else interned(replace(shape, node_affinity=None if free else terms))


def may_reserve(pod: Pod, node: str, snapshot: ClusterSnapshot) -> bool:
    """Reserve: the filter's question once more, asked of the ledger itself, before the room counts as taken."""
    room = snapshot.vms
    if not room.active:
        return True
    if pod.shape.vm is not None:
        return pod.shape.vm.within(room.ledger.ledger(node).free)
    return not room.is_vm_node(node) or ledger_amounts(pod.shape.requests).within(room.ordinary_left(node))


def vm_problem(vm: Vm | None, config: VmConfig) -> Reason | None:
    """Reason that a VM can be placed on no node at all; None if there is none."""
    if vm is None:
        return Reason.VM_MISSING
    if not vm.minimum.cpu or not vm.minimum.memory:
        return Reason.VM_AMOUNTS_INVALID
    if not (vm.minimum.within(vm.use) and vm.use.within(vm.maximum)):
        return Reason.VM_AMOUNTS_INVALID
    return Reason.VM_SLOT_SIZE_MISMATCH if vm.memory_slot != config.slot.memory else None


def first_approval(ledger: VmLedger, vm: Vm) -> VmAmounts:
    """Amounts a pod of `vm` is bound with: the VM's use, and all that another pod of the VM may use.

    The target of a migration so has room for a permit that the agent on the source node has not applied yet.
    """
    amounts = vm.use
    for pod in ledger.pods_of(vm.key):
        amounts = amounts.at_least(ledger.account(pod.key).reserved)
    return amounts


def amounts_said(amounts: VmAmounts) -> str:
    """Amounts for people."""
    return f"{cores_text(amounts.cpu)} CPU and {bytes_text(amounts.memory)} of memory"


def _detail(key: ObjectKey, vm: Vm | None, config: VmConfig) -> str:
    if vm is None:
        return f"VirtualMachine {key} is not there"
    if vm.memory_slot != config.slot.memory:
        slots = f"{bytes_text(vm.memory_slot)}, and nodes are counted in {bytes_text(config.slot.memory)}"
        return f"spec.guest.memorySlotSize of VirtualMachine {key} is {slots}"
    sizes = ", ".join(
        f"{name} {amounts_said(one)}" for name, one in (("min", vm.minimum), ("use", vm.use), ("max", vm.maximum))
    )
    return f"spec.guest of VirtualMachine {key} must be above 0 and min <= use <= max; it says {sizes}"
