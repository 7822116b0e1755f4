"""Hand a node over to the waiting pods of its request: choice of GPUs, and the intents in their fixed order.

Close the node, lease its GPUs, delete the smart pod, admit the waiting pods, open the node. Each step follows from
observed objects, so that a crash between any two of them loses nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ullage.decide.placement.engine import Placement, hold
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import AdmitWaitingPod, ClearHandover, DeleteSmartPod, GpuLeaseRequest, ReserveNode
from ullage.model.karpenter import HANDOVER, Handover, HandoverNode, SmartPod, WaitingPod
from ullage.model.lifecycles import SmartPodState
from ullage.model.pod import Pod
from ullage.model.shape import interned
from ullage.model.shape_terms import Toleration
from ullage.model.units import Instant, Milli
from ullage.model.verdict import Reason
from ullage.state.snapshot import ClusterSnapshot

NO_SCHEDULE = "NoSchedule"
RUNNING_GRACE_PERIOD = 1
"""Grace period in seconds of a running pause container; a pending pod gets none."""


def toleration_of(request: str) -> Toleration:
    """Toleration that admits a pod to the node that the hand-over taint closes for its request."""
    return Toleration(key=HANDOVER, value=request, effect=NO_SCHEDULE)


def is_admitted(pod: Pod, request: str) -> bool:
    return toleration_of(request) in pod.shape.tolerations


UNSUITABLE = frozenset(
    {
        Reason.NODE_SELECTOR_MISMATCH,
        Reason.TAINT_NOT_TOLERATED,
        Reason.GPU_MODEL_MISMATCH,
        Reason.GPU_MEMORY_TOO_SMALL,
    }
)
"""Reasons that every other node of the same NodePool would give, too."""
PASSING = frozenset(
    {
        Reason.NODE_UNSCHEDULABLE,
        Reason.NODE_STARTING,
        Reason.NODE_NOT_READY,
        Reason.NO_GPUS,
        Reason.INVENTORY_MISSING,
        Reason.INVENTORY_STALE,
        Reason.GPUS_UNHEALTHY,
        Reason.TOO_FEW_GPUS,
    }
)
"""Reasons of one node, which the next one need not have. Any other is tried again a few times only."""


class DoesNotFit(NamedTuple):
    """Waiting pod that does not fit on the node bought for it."""

    sentence: str
    reason: Reason | None = None


def choose_gpus(
    assigner: PodAssigner, waiting: Sequence[Pod], node: str, smart_pod: ObjectKey | None, *, now: Instant
) -> tuple[GpuLeaseRequest, ...] | DoesNotFit:
    """Choose GPUs of the node for each waiting pod by the scheduler's rules, as if the smart pod were deleted.

    GPUs that are leased to the waiting pods already are theirs: a crash may have ended a reservation in the middle.
    The snapshot is not changed.
    """
    snapshot, found = assigner.snapshot, list[GpuLeaseRequest]()
    with snapshot.leases.lifted(pod.uid for pod in waiting), snapshot.what_if():
        if smart_pod is not None:
            snapshot.forget(smart_pod)
        for pod in waiting:
            placement = _place_on(assigner, snapshot, pod, node, now)
            if isinstance(placement, DoesNotFit):
                return placement
            choice = placement.choice
            ids, milli = ((), 1000) if choice is None else (choice.ids, choice.share_milli)
            found.append(GpuLeaseRequest(pod=WaitingPod(pod.key, pod.uid), devices=ids, milli=Milli(milli)))
    return tuple(found)


def _place_on(
    assigner: PodAssigner, snapshot: ClusterSnapshot, pod: Pod, node: str, now: Instant
) -> Placement | DoesNotFit:
    ready = assigner.entitled(pod)
    if not isinstance(ready, Pod):
        return DoesNotFit(f"{pod.key} may not be placed now")
    shape = ready.shape
    anyhow = Toleration(key=HANDOVER, effect=NO_SCHEDULE, exists=True)
    admitted = interned(msgspec.structs.replace(shape, tolerations=(*shape.tolerations, anyhow)))
    ready = msgspec.structs.replace(ready, shape=admitted)
    answer = assigner.engine.place_on(ready, node, now=now)
    if not isinstance(answer, Placement):
        return DoesNotFit(f"{pod.key} does not fit on {node}: {answer.value}", answer)
    hold(snapshot, ready, answer)
    return answer


def reserve(
    node: HandoverNode, request: str, pods: Sequence[WaitingPod], leases: tuple[GpuLeaseRequest, ...], *, now: Instant
) -> ReserveNode:
    """Close the node and lease its GPUs. A hand-over that is under way keeps its start time."""
    under_way = node.handover if node.handover is not None and node.handover.request == request else None
    return ReserveNode(
        node=node.name,
        uid=node.uid,
        resource_version=node.resource_version,
        handover=Handover(
            request=request,
            pods=tuple(pods),
            since=Instant(now) if under_way is None else under_way.since,
            was_kept=node.kept if under_way is None else under_way.was_kept,
        ),
        leases=leases,
        why=f"node {node.name} is closed for request {request}, so that nobody else gets its GPUs",
    )


def release(smart_pod: SmartPod, end: SmartPodState, why: str, *, node_is_there: bool = True) -> DeleteSmartPod:
    """Delete a smart pod, with a grace period only if its container runs on a node that is there to end it."""
    runs = smart_pod.node and not smart_pod.over and node_is_there
    grace_period = RUNNING_GRACE_PERIOD if runs else 0
    return DeleteSmartPod(key=smart_pod.key, uid=smart_pod.uid, grace_seconds=grace_period, end=end, why=why)


def release_again(smart_pod: SmartPod, why: str) -> DeleteSmartPod:
    """Delete a smart pod that was deleted and does not go, without waiting for its kubelet."""
    end = SmartPodState.CANCELLED
    return DeleteSmartPod(key=smart_pod.key, uid=smart_pod.uid, grace_seconds=0, end=end, why=why, again=True)


def admit(pod: Pod, node: HandoverNode, request: str) -> AdmitWaitingPod:
    why = f"node {node.name} was bought for it: request {request}"
    return AdmitWaitingPod(pod=WaitingPod(pod.key, pod.uid), request=request, node=node.name, why=why)


def open_node(node: HandoverNode, end: SmartPodState | None, why: str) -> ClearHandover:
    """Remove the hand-over taint, and do-not-disrupt if the hand-over added it."""
    ours = node.handover is not None and not node.handover.was_kept
    return ClearHandover(
        node=node.name,
        uid=node.uid,
        resource_version=node.resource_version,
        drop_do_not_disrupt=ours and node.kept,
        end=end,
        why=why,
    )
