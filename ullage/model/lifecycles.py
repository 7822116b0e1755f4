"""Lifecycle tables of all systems: each edge says what happened."""

from enum import StrEnum

from ullage.model.lifecycle import Lifecycle


class SmartPodState(StrEnum):
    """Progress of a capacity request."""

    REQUESTED = "Requested"
    PENDING = "Pending"
    NOMINATED = "Nominated"
    LAUNCHED = "Launched"
    REGISTERED = "Registered"
    INITIALIZED = "Initialized"
    INVENTORY_READY = "InventoryReady"
    RESERVED = "Reserved"
    HANDED_OVER = "HandedOver"
    FAILED = "Failed"
    EXPIRED = "Expired"
    CANCELLED = "Cancelled"


class SmartPodStatus(StrEnum):
    """Progress in five words, for people and dashboards."""

    PENDING = "Pending"
    SCHEDULED = "Scheduled"
    NODE_READY = "NodeReady"
    COMPLETED = "Completed"
    FAILED = "Failed"


_S = SmartPodState

IN_FLIGHT = (
    _S.PENDING,
    _S.NOMINATED,
    _S.LAUNCHED,
    _S.REGISTERED,
    _S.INITIALIZED,
    _S.INVENTORY_READY,
    _S.RESERVED,
)
"""States with a smart pod, in order."""
ENDED = (_S.FAILED, _S.EXPIRED, _S.CANCELLED)

_STATUS = {
    _S.REQUESTED: SmartPodStatus.PENDING,
    _S.PENDING: SmartPodStatus.PENDING,
    _S.NOMINATED: SmartPodStatus.PENDING,
    _S.LAUNCHED: SmartPodStatus.PENDING,
    _S.REGISTERED: SmartPodStatus.SCHEDULED,
    _S.INITIALIZED: SmartPodStatus.SCHEDULED,
    _S.INVENTORY_READY: SmartPodStatus.NODE_READY,
    _S.RESERVED: SmartPodStatus.NODE_READY,
    _S.HANDED_OVER: SmartPodStatus.COMPLETED,
    _S.FAILED: SmartPodStatus.FAILED,
    _S.EXPIRED: SmartPodStatus.FAILED,
    _S.CANCELLED: SmartPodStatus.FAILED,
}


def status_of(state: SmartPodState, *, bound: bool) -> SmartPodStatus:
    """Status for people. A smart pod without a node is Pending, however far its node has come."""
    status = _STATUS[state]
    return SmartPodStatus.PENDING if status is SmartPodStatus.SCHEDULED and not bound else status


_CANCELLED = "the waiting pods are bound elsewhere, deleted or changed: the smart pod is deleted"
_FAILED = "a failure was classified from Karpenter's Events and conditions: the waiting pod says it"
_EXPIRED = "the state's deadline passed"

SMART_POD = Lifecycle[SmartPodState](
    "smart pod",
    {
        (_S.REQUESTED, _S.PENDING): "the smart pod was created, and Karpenter has not answered yet",
        (_S.PENDING, _S.NOMINATED): "Karpenter made a NodeClaim with the request's label",
        (_S.PENDING, _S.LAUNCHED): "the NodeClaim was launched by the time it was first observed",
        (_S.NOMINATED, _S.LAUNCHED): "the cloud made the instance",
        (_S.LAUNCHED, _S.REGISTERED): "the instance joined the cluster as a node",
        (_S.REGISTERED, _S.INITIALIZED): "the node is Ready, has its GPUs, and the smart pod is bound to it",
        (_S.INITIALIZED, _S.INVENTORY_READY): "the node's agent reported enough healthy GPUs that suit the request",
        (
            _S.INVENTORY_READY,
            _S.RESERVED,
        ): "the node is closed for the request, and its GPUs are leased to the waiting pods",
        (_S.RESERVED, _S.HANDED_OVER): "the smart pod is gone, and the waiting pods may be bound",
        # A bound smart pod is a valid edge from any earlier state: two watches report one moment in either order.
        (
            _S.PENDING,
            _S.REGISTERED,
        ): "the smart pod was bound before a NodeClaim was observed, or to a node that was there",
        (_S.NOMINATED, _S.REGISTERED): "the smart pod was bound before the NodeClaim showed Launched",
        (_S.PENDING, _S.INITIALIZED): "the smart pod was bound to a node that was there and Ready",
        (
            _S.NOMINATED,
            _S.INITIALIZED,
        ): "the smart pod was bound, and the node was Ready, before the NodeClaim showed it",
        (
            _S.LAUNCHED,
            _S.INITIALIZED,
        ): "the smart pod was bound, and the node was Ready, before the NodeClaim showed it",
        (_S.PENDING, _S.INVENTORY_READY): "the smart pod was bound to a node whose GPUs were reported already",
        (_S.NOMINATED, _S.INVENTORY_READY): "the smart pod was bound to a node whose GPUs were reported already",
        (_S.LAUNCHED, _S.INVENTORY_READY): "the smart pod was bound to a node whose GPUs were reported already",
        (_S.REGISTERED, _S.INVENTORY_READY): "the GPUs were reported before the node showed that it is initialized",
        # Backwards: expected capacity that did not come.
        (_S.NOMINATED, _S.PENDING): "Karpenter deleted the NodeClaim before it was launched: no capacity",
        (_S.LAUNCHED, _S.PENDING): "the NodeClaim went before its node registered",
        (_S.REGISTERED, _S.PENDING): "the node went before its smart pod was bound",
        (_S.INITIALIZED, _S.REGISTERED): "the node is not Ready any more",
        (_S.INVENTORY_READY, _S.REGISTERED): "the node is not Ready any more",
        (_S.INVENTORY_READY, _S.INITIALIZED): "GPUs of the node are missing from its report, or ill",
        (_S.RESERVED, _S.INVENTORY_READY): "the hand-over was taken back",
        **{(state, _S.FAILED): _FAILED for state in (_S.REQUESTED, *IN_FLIGHT, _S.HANDED_OVER)},
        **{(state, _S.EXPIRED): _EXPIRED for state in (*IN_FLIGHT, _S.HANDED_OVER)},
        **{(state, _S.CANCELLED): _CANCELLED for state in (_S.REQUESTED, *IN_FLIGHT, _S.HANDED_OVER)},
        (_S.EXPIRED, _S.FAILED): "an expired attempt is a failed one",
        (_S.FAILED, _S.REQUESTED): "the back-off is over, or the pod, a mapping or a NodePool changed",
        (_S.CANCELLED, _S.REQUESTED): "a pod of the request waits again",
    },
)
