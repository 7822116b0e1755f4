"""Capacity requests of the waiting pods that a new node would help."""

from collections.abc import Callable, Collection, Iterable

from msgspec.structs import replace

from ullage.decide.gang.membership import gang_of, gang_size
from ullage.decide.gang.placement import GangRequest
from ullage.decide.karpenter.retry import read_failure
from ullage.decide.karpenter.volume_nodes import Terms, with_volumes
from ullage.decide.placement.engine import device_ask
from ullage.decide.placement.filters.volume_requirements import mounts_of
from ullage.decide.placement.quota import least_taken, quota_verdict
from ullage.decide.placement.vm_pods import moved_vm
from ullage.decide.provisioning.pending import PodOrGang
from ullage.decide.provisioning.vm_demand import moved_from
from ullage.decide.scheduling.assignment import PodAssigner, waits
from ullage.model.claim import DeviceRequest
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import HANDOVER, CapacityRequest, WaitingPod
from ullage.model.pod import Pod
from ullage.model.provisioner import HOST_LABEL, PROVISIONER_LABEL
from ullage.model.resources import MILLI
from ullage.model.selector import Operator
from ullage.model.shape import Shape
from ullage.model.vm import VmAmounts
from ullage.model.vm_config import node_size

INSUFFICIENT = "InsufficientGpus"
VM_IN_NEED = "VmNeedsNode"


def capacity_requests(
    assigner: PodAssigner, pending: Iterable[PodOrGang], unmet: Collection[ObjectKey]
) -> list[CapacityRequest]:
    """Capacity requests of the unmet pods, in the order of the queue. Gangs are complete or left out."""
    found: list[CapacityRequest] = []
    for turn in pending:
        if isinstance(turn, GangRequest):
            members = [request_of(assigner, pod) for pod in turn.pending[: turn.needed] if pod.key in unmet]
            known = [one for one in members if one is not None]
            if len(known) == len(members):
                found += [_in_gang(one, turn.key, len(known)) for one in known]
        elif turn.key in unmet:
            request = request_of(assigner, turn)
            found += [] if request is None else [request]
    return found


def served_together(assigner: PodAssigner, pod: Pod, counts: Callable[[Pod], bool]) -> tuple[Pod, ...]:
    """Pods that one system serves, or none: the pod, or the waiting members of its gang that count."""
    gang = gang_of(pod, assigner.snapshot.state)
    return (pod,) if gang is None else assigner.gang_ask(gang, counts).pending or (pod,)


def request_of(assigner: PodAssigner, pod: Pod) -> CapacityRequest | None:
    """Return the capacity request of a waiting pod; None where no new node would help it.

    A VM that needs a new node asks for it in the name of the pod it runs in.
    """
    pod = assigner.snapshot.state.pods.get(moved_from(pod.key), pod)
    ready = assigner.entitled(pod) if waits(pod) else moved_vm(pod, assigner.snapshot)
    if not isinstance(ready, Pod):
        return None
    ask, shape, storage = device_ask(ready), ready.shape, assigner.snapshot.storage
    terms = with_volumes(shape.node_affinity, mounts_of(shape, storage), storage)
    if not _helps(assigner, ready, terms):
        return None
    if ask is None:
        return _request_of_vm(assigner, pod, shape, terms)
    gang = gang_of(pod, assigner.snapshot.state)
    return CapacityRequest(
        pod=WaitingPod(pod.key, pod.uid),
        ask=ask,
        requests=_with_vm(assigner, shape),
        node_selector=shape.node_selector,
        node_affinity=terms,
        tolerations=tuple(one for one in shape.tolerations if one.key != HANDOVER),
        gang=gang,
        gang_size=0 if gang is None else gang_size(gang, assigner.snapshot.state),
        shareable=not (shape.looks_at_itself or shape.host_ports or shape.claims),
        why=INSUFFICIENT,
        failure=read_failure(pod.capacity_failure),
    )


def _request_of_vm(assigner: PodAssigner, pod: Pod, shape: Shape, terms: Terms) -> CapacityRequest | None:
    """Request of a VM without GPUs, for a node with room for it below the watermarks."""
    config = assigner.snapshot.vms.config
    if shape.vm is None or not config.node_selector:
        return None
    return CapacityRequest(
        pod=WaitingPod(pod.key, pod.uid),
        ask=DeviceRequest(count=0),
        requests=_node_for(assigner, shape.vm),
        node_selector=shape.node_selector,
        node_affinity=terms,
        tolerations=tuple(one for one in shape.tolerations if one.key != HANDOVER),
        why=VM_IN_NEED,
        failure=read_failure(pod.capacity_failure),
        vm_nodes=config.node_selector,
    )


def _with_vm(assigner: PodAssigner, shape: Shape) -> tuple[tuple[str, int], ...]:
    """Requests of a pod; those of a VM with GPUs are at least what its node needs for the VM below the watermarks.

    Its NodePool is chosen by its GPUs, as a NodeProvisioner is, and its node is handed over like any other with GPUs.
    """
    if shape.vm is None:
        return shape.requests
    asked = dict(shape.requests)
    for name, amount in _node_for(assigner, shape.vm):
        asked[name] = max(asked.get(name, 0), amount)
    return tuple(sorted(asked.items()))


def _node_for(assigner: PodAssigner, vm: VmAmounts) -> tuple[tuple[str, int], ...]:
    config = assigner.snapshot.vms.config
    cpu = node_size(vm.cpu, config.defaults.cpu, config.slot.cpu)
    memory = node_size(vm.memory, config.defaults.memory, config.slot.memory)
    return (("cpu", cpu), ("memory", memory * MILLI))


def _helps(assigner: PodAssigner, pod: Pod, terms: Terms) -> bool:
    """True if one more node of the right kind would let the pod be placed. `terms`: its node affinity, with volumes."""
    mounts = mounts_of(pod.shape, assigner.snapshot.storage)
    return not (_is_pinned(pod.shape, terms) or _over_quota(assigner, pod) or mounts.missing)


def _is_pinned(shape: Shape, terms: Terms) -> bool:
    """True if the pod may be placed only on existing nodes, or on those of a NodeProvisioner, or on none at all."""
    selected = {key for key, _ in shape.node_selector}
    if shape.node_name or selected & {HOST_LABEL, PROVISIONER_LABEL}:
        return True
    if any(term.topology_key == HOST_LABEL for term in shape.near):
        return True
    return terms is not None and all(
        term.fields or any(one.key == HOST_LABEL and one.operator is Operator.IN for one in term.labels)
        for term in terms
    )


def _over_quota(assigner: PodAssigner, pod: Pod) -> bool:
    limits, ask = assigner.quota.limits(pod.key.namespace), device_ask(pod)
    if limits is None or ask is None:
        return False
    return not quota_verdict(limits, assigner.quota.usage(pod.key.namespace), least_taken(ask))


def _in_gang(request: CapacityRequest, gang: ObjectKey, size: int) -> CapacityRequest:
    return replace(request, gang=gang, gang_size=size)
