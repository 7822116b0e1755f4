"""Intents of the Karpenter controller."""

from dataclasses import dataclass

from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import Handover, WaitingPod
from ullage.model.karpenter_failure import RecordedFailure
from ullage.model.lifecycles import SmartPodState
from ullage.model.shape_terms import NodeTerm, Pairs, Toleration
from ullage.model.units import Instant, Milli


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSmartPod:
    """Create the pod that makes Karpenter buy a node."""

    key: ObjectKey
    request: str
    labels: Pairs
    annotations: Pairs
    requests: tuple[tuple[str, int], ...]
    """Requests and limits of its one container, in thousandths, sorted."""
    node_selector: Pairs
    node_affinity: tuple[NodeTerm, ...] | None
    tolerations: tuple[Toleration, ...]
    image: str
    priority_class: str
    active_deadline: int
    pods: tuple[WaitingPod, ...]
    why: str
    for_vm: bool = False
    """A VM needs the node, and no GPUs of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSmartPodState:
    """Write state, its time, attempts and NodeClaim on the smart pod. People and the next start read them there."""

    key: ObjectKey
    uid: str
    state: SmartPodState
    since: Instant
    attempts: int
    node_claim: str
    why: str
    request: str = ""
    lost: tuple[str, ...] = ()
    """NodeClaims that came and went before the smart pod named them: the attempts count them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLeaseRequest:
    """GPUs of the node to be leased to one waiting pod. Without devices the node's device plugin chooses."""

    pod: WaitingPod
    devices: tuple[int, ...]
    milli: Milli


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveNode:
    """Close the node for the request, keep it from disruption, and lease its GPUs to the waiting pods."""

    node: str
    uid: str
    resource_version: str
    handover: Handover
    leases: tuple[GpuLeaseRequest, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSmartPod:
    """Delete this smart pod."""

    key: ObjectKey
    uid: str
    grace_seconds: int
    end: SmartPodState
    """State it ends in: HandedOver, Failed, Expired or Cancelled."""
    why: str
    again: bool = False
    """It was deleted before and does not go: fails while it is there."""
    for_vm: bool = False
    """Its node is open for a VM. Nothing follows: HandedOver is the end of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitWaitingPod:
    """Let this pod tolerate the hand-over taint of its node."""

    pod: WaitingPod
    request: str
    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearHandover:
    """Open the node: remove the taint, and do-not-disrupt if the hand-over set it."""

    node: str
    uid: str
    resource_version: str
    drop_do_not_disrupt: bool
    end: SmartPodState | None
    """End of the request: HandedOver if its pods were bound, Failed if the node was lost, Cancelled if it was over.

    None for a VM: its request ends with its smart pod.
    """
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFailure:
    """Write the last failure on this waiting pod; None removes it."""

    pod: WaitingPod
    failure: RecordedFailure | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkNodePool:
    """Set the condition HandoverUnprotected of this NodePool; `unprotected` False removes it."""

    node_pool: str
    uid: str
    generation: int
    unprotected: bool
    why: str


KarpenterIntent = (
    CreateSmartPod
    | RecordSmartPodState
    | ReserveNode
    | DeleteSmartPod
    | AdmitWaitingPod
    | ClearHandover
    | RecordFailure
    | MarkNodePool
)
