"""Demand of VMs that need a new node: each as a pod that is to be placed below a watermark. See docs/vms.md.

The scheduler records the need on the VirtualMachine. Here it is placed like a pending pod: on an existing or upcoming
node if one has room by now, so that nothing is bought twice; on a new one otherwise.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from ullage.decide.placement.vm_pods import MOVED, moved_vm
from ullage.decide.provisioning.pending import PodOrGang, pending_in_steps
from ullage.decide.scheduling.assignment import PodAssigner, waits
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.stepper import Stepper, finish
from ullage.state.snapshot import ClusterSnapshot


def pending_and_vms_in_need(
    assigner: PodAssigner, counts: Callable[[Pod], bool] = waits, counts_vm: Callable[[Pod], bool] = lambda _pod: True
) -> list[PodOrGang]:
    """All that nodes may be bought for: pending pods and gangs in the order of the queue, then VMs in need of a node.

    Who plans or explains purchases asks here, so that no two of them count differently.
    """
    return finish(pending_and_vms_in_steps(assigner, counts, counts_vm))


def pending_and_vms_in_steps(
    assigner: PodAssigner, counts: Callable[[Pod], bool], counts_vm: Callable[[Pod], bool]
) -> Stepper[list[PodOrGang]]:
    """`pending_and_vms_in_need`, in steps."""
    pending = yield from pending_in_steps(assigner, counts)
    return [*pending, *filter(counts_vm, vms_in_need(assigner.snapshot))]


def vms_in_need(snapshot: ClusterSnapshot) -> Iterator[Pod]:
    """Supposed targets of VMs that need a node, those that wait longest first."""
    room = snapshot.vms
    needs = [(vm.needs_node, vm.key) for vm in room.ledger.vms() if vm.needs_node is not None] if room.active else []
    for since, vm in sorted(needs):
        for pod in room.ledger.pods_of(vm):
            known = snapshot.state.pods.get(pod.key)
            if known is None or not needs_new_node(known, snapshot):
                continue
            moved = moved_vm(known, snapshot)
            if moved is not None:
                yield replace(moved, created=since)


def needs_new_node(pod: Pod, snapshot: ClusterSnapshot) -> bool:
    """True for the pod of a VM that needs a new node and is not on its way yet."""
    room = snapshot.vms
    counted = None if pod.vm is None or not room.active else room.ledger.pod(pod.key)
    vm = None if counted is None else room.ledger.vm(counted.vm_key)
    if counted is None or vm is None or vm.needs_node is None:
        return False
    return not counted.incoming and not room.ledger.account(pod.key).migrating


def moved_from(pod: ObjectKey) -> ObjectKey:
    """Name of the pod that a supposed target stands for; other names as they are."""
    return ObjectKey(pod.namespace, pod.name.removesuffix(MOVED))
