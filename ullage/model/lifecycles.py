"""Lifecycle tables of all systems: each edge says what happened."""

from enum import StrEnum
from typing import Any

from ullage.model.claim import ClaimPhase
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


class PoolNodeState(StrEnum):
    """Progress of one node of a pool, from the request to its end."""

    REQUESTED = "Requested"
    LAUNCHED = "Launched"
    REGISTERED = "Registered"
    READY = "Ready"
    MARKED_FOR_DELETION = "MarkedForDeletion"
    DRAINING = "Draining"
    DELETING = "Deleting"
    GONE = "Gone"
    FAILED_TO_REGISTER = "FailedToRegister"


_N = PoolNodeState

POOL_NODE = Lifecycle[PoolNodeState](
    "node of a pool",
    {
        (_N.REQUESTED, _N.LAUNCHED): "the cloud made the instance",
        (_N.LAUNCHED, _N.REGISTERED): "the instance joined the cluster as a Node",
        (_N.REGISTERED, _N.READY): "the Node is ready, and its GPUs were reported where the template has any",
        (_N.READY, _N.REGISTERED): "the Node is not ready any more, or its GPUs are gone",
        (_N.REGISTERED, _N.LAUNCHED): "the Node was deleted, and the instance stays",
        (_N.READY, _N.LAUNCHED): "the Node was deleted, and the instance stays",
        (_N.READY, _N.MARKED_FOR_DELETION): "the node is empty and not needed: it is tainted until its delay is over",
        (_N.REGISTERED, _N.MARKED_FOR_DELETION): "the node is empty, not needed and not ready: it is tainted",
        (_N.MARKED_FOR_DELETION, _N.READY): "a pod needs the node: the deletion taint is taken off",
        (_N.READY, _N.DRAINING): "a removal plan moves its pods: the draining taint is written",
        (_N.REGISTERED, _N.DRAINING): "a removal plan moves the pods of a node that is not ready",
        (_N.DRAINING, _N.READY): "the removal was abandoned: the taints are taken off",
        (_N.MARKED_FOR_DELETION, _N.DELETING): "the delay is over and no pod that matters is on the node",
        (_N.DRAINING, _N.DELETING): "the node is empty by a fresh read",
        (_N.REQUESTED, _N.FAILED_TO_REGISTER): "the cloud never showed the instance",
        (_N.LAUNCHED, _N.FAILED_TO_REGISTER): "the instance is no usable node within bootDeadline: it is given up",
        (_N.FAILED_TO_REGISTER, _N.DELETING): "the instance is deleted",
        (_N.FAILED_TO_REGISTER, _N.REGISTERED): "the instance joined after all",
        (_N.DELETING, _N.GONE): "the provider lists the instance no more",
        (_N.LAUNCHED, _N.GONE): "somebody else ended the instance",
        (_N.REGISTERED, _N.GONE): "somebody else ended the instance",
        (_N.READY, _N.GONE): "somebody else ended the instance",
    },
)


class PurchaseState(StrEnum):
    """Progress of a purchase of nodes. It is written on the NodeProvisioner before the cloud is asked."""

    PLANNED = "Planned"
    OPEN = "Open"
    SETTLED = "Settled"
    FAILED = "Failed"


_P = PurchaseState

PURCHASE = Lifecycle[PurchaseState](
    "purchase",
    {
        (_P.PLANNED, _P.OPEN): "the purchase was written with its token, before the cloud is asked",
        (_P.OPEN, _P.OPEN): "the outcome is unknown: it is asked again with the same token after a back-off",
        (_P.OPEN, _P.SETTLED): "the cloud made the instances, or fewer: those are awaited from now on",
        (_P.OPEN, _P.FAILED): "the cloud refused: the pool backs off",
    },
)

_C = ClaimPhase
_UNUSED = "its pod is over or deleted: the claim waits for the next"

CLAIM = Lifecycle[ClaimPhase](
    "claim",
    {
        (_C.PENDING, _C.RESERVED): "GPUs are leased for a bind under way",
        (_C.RESERVED, _C.BOUND): "the pod is bound and holds its GPUs",
        (_C.PENDING, _C.BOUND): "the pod was bound before the reservation was written",
        (_C.RESERVED, _C.PENDING): "the bind failed, and its GPUs were given back",
        (_C.BOUND, _C.PENDING): _UNUSED,
        (_C.PENDING, _C.FAILED): "the request itself cannot be met: only a changed claim or a larger node helps",
        (_C.FAILED, _C.PENDING): "the claim changed, or a larger node joined",
        (_C.RESERVED, _C.FAILED): "the bind failed, and the claim was changed to one that cannot be met",
        (_C.FAILED, _C.RESERVED): "the claim was corrected, and GPUs are leased for a bind under way",
        (_C.FAILED, _C.BOUND): "the claim was corrected, and the pod was bound before another status was written",
        (_C.BOUND, _C.FAILED): "its pod is gone, and the next one cannot be served",
        (_C.BOUND, _C.RESERVED): "its pod is gone, and GPUs are leased for the next",
    },
)


class GangState(StrEnum):
    """Progress of a gang: all its members run, or none takes GPUs from others."""

    ASSEMBLING = "Assembling"
    WAITING = "Waiting"
    BINDING = "Binding"
    COMPLETE = "Complete"
    BACKING_OFF = "BackingOff"
    PARTIAL = "Partial"
    EVICTING = "Evicting"


_G = GangState

GANG = Lifecycle[GangState](
    "gang",
    {
        (_G.ASSEMBLING, _G.WAITING): "enough members exist, and there is no room for all of them yet",
        (_G.ASSEMBLING, _G.BINDING): "enough members exist and fit: all are assumed, and their GPUs are leased",
        (_G.WAITING, _G.ASSEMBLING): "a member was deleted, or the gang needs more members",
        (_G.WAITING, _G.BINDING): "there is room for all: they are assumed, and their GPUs are leased",
        (_G.WAITING, _G.BACKING_OFF): "the scheduling timeout is over: other pods go first for a while",
        (_G.BACKING_OFF, _G.WAITING): "the back-off is over",
        (_G.BACKING_OFF, _G.ASSEMBLING): "a member was deleted meanwhile",
        (_G.BACKING_OFF, _G.BINDING): "room came up, and nobody else could use it",
        (_G.BINDING, _G.COMPLETE): "as many members as the gang needs are bound",
        (_G.BINDING, _G.WAITING): "a member could not be bound before any was: all GPUs are given back",
        (_G.BINDING, _G.PARTIAL): "some members are bound, and the others could not be",
        (_G.COMPLETE, _G.PARTIAL): "a bound member went, and fewer are left than the gang needs",
        (_G.COMPLETE, _G.ASSEMBLING): "all members are over or gone",
        (_G.PARTIAL, _G.BINDING): "the missing members fit again",
        (_G.PARTIAL, _G.COMPLETE): "the missing members were bound",
        (_G.PARTIAL, _G.EVICTING): "the missing members found no room in time: part of a gang is of no use",
        (_G.PARTIAL, _G.ASSEMBLING): "the bound members are over or gone",
        (_G.EVICTING, _G.ASSEMBLING): "no member is on a node any more",
        (_G.EVICTING, _G.WAITING): "no member is on a node any more, and enough of them wait",
    },
)


class RemovalState(StrEnum):
    """Progress of the removal of one node."""

    PLANNED = "Planned"
    TAINTED = "Tainted"
    EVICTING = "Evicting"
    EMPTY = "Empty"
    DELETING = "Deleting"
    REMOVED = "Removed"
    LEFT_TO_OWNER = "LeftToOwner"
    RELEASED = "Released"
    MACHINE_UNKNOWN = "MachineUnknown"


_R = RemovalState
REMOVAL_ENDED = (_R.REMOVED, _R.LEFT_TO_OWNER, _R.RELEASED, _R.MACHINE_UNKNOWN)
"""States in which no task works on the removal. A node with an unknown machine is planned again."""
_VIOLATED = "the recheck on fresh reads found a violation: the taints are taken off"

REMOVAL = Lifecycle[RemovalState](
    "removal",
    {
        (_R.PLANNED, _R.TAINTED): "the draining taint is written, before any pod is touched",
        (_R.PLANNED, _R.RELEASED): "the node changed, or a disruption budget is spent: nothing was written",
        (_R.TAINTED, _R.EVICTING): "the recheck on fresh reads found no violation",
        (_R.TAINTED, _R.EMPTY): "the recheck on fresh reads found no pod to evict",
        (_R.TAINTED, _R.RELEASED): _VIOLATED,
        (_R.EVICTING, _R.EMPTY): "every pod of the plan is gone",
        (_R.EVICTING, _R.RELEASED): "a pod was not evicted, or not gone in time: the taints are taken off",
        (_R.EMPTY, _R.DELETING): "the recheck before the deletion found no violation",
        (_R.EMPTY, _R.LEFT_TO_OWNER): "no provider of ours made the node: it stays cordoned and empty",
        (_R.EMPTY, _R.RELEASED): _VIOLATED,
        (_R.DELETING, _R.REMOVED): "the instance and the Node are gone",
        (_R.DELETING, _R.MACHINE_UNKNOWN): "the provider has no instance for the node, or did not answer",
        (_R.DELETING, _R.RELEASED): "the provider refused: the taints are taken off",
        (_R.MACHINE_UNKNOWN, _R.DELETING): "the next plan tries again",
        (_R.MACHINE_UNKNOWN, _R.RELEASED): "the node is needed again, or was replaced",
    },
)

LIFECYCLES: tuple[Lifecycle[Any], ...] = (POOL_NODE, PURCHASE, CLAIM, GANG, REMOVAL, SMART_POD)
"""All tables, in the order of the page."""


def lifecycles_page() -> str:
    """Tables as a page with diagrams: docs/generated/lifecycles.md."""
    lines = ["# Lifecycles", "", "Generated from `ullage/model/lifecycles.py` by `make format`; do not edit."]
    for one in LIFECYCLES:
        lines += ["", f"## {one.name[:1].upper()}{one.name[1:]}", "", "```mermaid", "stateDiagram-v2"]
        lines += [f"    {start.value} --> {end.value}" for start, end in one.edges]
        lines += ["```", "", "| From | To | When |", "|---|---|---|"]
        lines += [f"| {start.value} | {end.value} | {sentence} |" for (start, end), sentence in one.edges.items()]
    return "\n".join(lines) + "\n"
