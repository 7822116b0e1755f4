"""Demand of VMs that need a new node: each as a pod that is to be placed below a watermark. See docs/vms.md.

The scheduler records the need on the VirtualMachine. Here it is placed like a pending pod: on an existing or upcoming
node if one has room by now, so that nothing is bought twice; on a new one otherwise.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from ullage.decide.placement.vm_pods import MOVED, moved_vm
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.state.snapshot import ClusterSnapshot


def vms_in_need(snapshot: ClusterSnapshot) -> Iterator[Pod]:
    """Supposed targets of VMs that need a node, those that wait longest first."""
    room = snapshot.vms
    needs = [(vm.needs_node, vm.key) for vm in room.ledger.vms() if vm.needs_node is not None] if room.active else []
    for since, vm in sorted(needs):
        for pod in room.ledger.pods_of(vm):
            known = snapshot.state.pods.get(pod.key)
            if known is None or pod.incoming or room.ledger.account(pod.key).migrating:
                continue
            moved = moved_vm(known, snapshot)
            if moved is not None:
                yield replace(moved, created=since)


def moved_from(pod: ObjectKey) -> ObjectKey:
    """Name of the pod that a supposed target stands for; other names as they are."""
    return ObjectKey(pod.namespace, pod.name.removesuffix(MOVED))
