"""Intents of the Karpenter system and their outcomes. Frozen; each intent says why. `act.smart_pods` performs them."""

from dataclasses import dataclass

from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import Handover, WaitingPod
from ullage.model.karpenter_failure import RecordedFailure
from ullage.model.lifecycles import SmartPodState
from ullage.model.shape_terms import NodeTerm, Pairs, Toleration


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSmartPodState:
    """Write state, its time, attempts and NodeClaim on the smart pod. People and the next start read them there."""

    key: ObjectKey
    uid: str
    state: SmartPodState
    since: float
    attempts: int
    node_claim: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLeaseRequest:
    """GPUs of the node to be leased to one waiting pod. Without devices the node's device plugin chooses."""

    pod: WaitingPod
    devices: tuple[int, ...]
    milli: int


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
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFailure:
    """Write the last failure on this waiting pod; None removes it."""

    pod: WaitingPod
    failure: RecordedFailure | None
    why: str


KarpenterIntent = (
    CreateSmartPod
    | RecordSmartPodState
    | ReserveNode
    | DeleteSmartPod
    | AdmitWaitingPod
    | ClearHandover
    | RecordFailure
)


@dataclass(frozen=True, slots=True)
class IntentDone:
    """The state asked for holds; another client may have written it."""

    intent: KarpenterIntent
    written: bool = True
    """False where it held already."""


@dataclass(frozen=True, slots=True)
class IntentStale:
    """The object is gone, was replaced, or changed since. The next observation decides."""

    intent: KarpenterIntent
    detail: str


@dataclass(frozen=True, slots=True)
class IntentRejected:
    """The API server refused for good: repeating the same request is of no use."""

    intent: KarpenterIntent
    detail: str


@dataclass(frozen=True, slots=True)
class IntentFailed:
    """The API server could not be asked, or did not answer. The intent is tried again after a back-off."""

    intent: KarpenterIntent
    detail: str


KarpenterOutcome = IntentDone | IntentStale | IntentRejected | IntentFailed
