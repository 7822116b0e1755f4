"""Intents of all systems. Frozen; each says why. `decide` chooses them, `act` performs them; nothing else is here.

One union per system, which its actuator matches exhaustively.
"""

from dataclasses import dataclass

from ullage.model.allocation import Allocation
from ullage.model.claim import ClaimInUse
from ullage.model.device import MILLI_GPU
from ullage.model.dra import WithheldGpu
from ullage.model.draining import PodMove, ScaleDownReason
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import Handover, WaitingPod
from ullage.model.karpenter_failure import RecordedFailure
from ullage.model.lifecycles import SmartPodState
from ullage.model.refusal import SchedulingFailure
from ullage.model.shape_terms import NodeTerm, Pairs, Toleration
from ullage.model.units import Instant
from ullage.model.vm import Vm, VmAmounts, VmMigration, VmPod

# Scheduling.


@dataclass(frozen=True, slots=True)
class VolumeAssignment:
    """Assignment of an existing PersistentVolume to a PersistentVolumeClaim of the pod's namespace."""

    claim: str
    volume: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BindPod:
    """Bind this pod to a node with exactly these devices, if it has not changed since the decision."""

    pod: ObjectKey
    uid: str
    resource_version: str
    """Version of the pod that was decided on. It is the precondition of the bind: an earlier change of the pod wins."""
    node: str
    why: str
    devices: tuple[int, ...] = ()
    """Devices to be leased. Empty for pods without GPUs, and on nodes whose device plugin chooses."""
    milli: int = MILLI_GPU
    """Thousandths of each device."""
    visible: tuple[str, ...] = ()
    """UUIDs the containers are to see: of devices or of MIG instances."""
    volumes: tuple[str, ...] = ()
    """PersistentVolumeClaims of the pod's namespace that wait for their first consumer: bound before the pod is."""
    volume_assignments: tuple[VolumeAssignment, ...] = ()
    """Volumes that exist already, for claims among `volumes`. For the other claims a volume is made for the node."""
    approved: VmAmounts | None = None
    """First approval of a VM pod: written with the bind."""
    withheld: tuple[WithheldGpu, ...] = ()
    """Devices among `devices` that kube-scheduler could allocate too. They are withheld from it before the bind."""
    claim: ClaimInUse | None = None
    """Claim of the pod. It is protected against deletion before the bind."""

    @property
    def allocation(self) -> Allocation | None:
        return Allocation(self.node, self.devices) if self.devices else None

    @property
    def instances(self) -> tuple[str, ...]:
        """UUIDs of the MIG instances to be leased, in the order of `devices`; of whole devices and shares none."""
        return () if self.milli else self.visible


@dataclass(frozen=True, slots=True, kw_only=True)
class BindGang:
    """Bind these pods, all of one gang. None is bound before the devices of all are held."""

    gang: ObjectKey
    places: tuple[BindPod, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """Pod to evict for one of higher priority."""

    pod: ObjectKey
    uid: str
    node: str
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """Nominate a node for this pod, and evict the victims by the Eviction API, which honours disruption budgets."""

    pod: ObjectKey
    uid: str
    node: str
    victims: tuple[Victim, ...]
    """The least important first. Empty where the pods in the way are leaving already."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictGang:
    """Evict every member of a gang that is on a node: part of a gang is of no use."""

    gang: ObjectKey
    victims: tuple[Victim, ...]
    why: str


# Scheduling: conditions of pods that found no place.


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkUnschedulable:
    """Write on this pod why it has no place, and the node nominated for it while other pods leave."""

    pod: ObjectKey
    uid: str
    why: SchedulingFailure
    nominated: str | None = None
    """Node to nominate; empty removes a nomination, None leaves it as it is."""


# Claims.


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateClaimFromTemplate:
    """Create a claim for this pod from this template."""

    pod: ObjectKey
    uid: str
    template: str
    template_uid: str
    generation: int
    """Generation of the template: templates with the same uid and generation are equal."""


# Pools of nodes.


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    """Request nodes from the provider. The token makes a repeated request harmless."""

    provisioner: str
    count: int
    serial: int
    token: str
    why: str
    zone: str = ""
    """Zone the nodes must come up in; empty leaves it to the provider."""
    least: int = 0
    """Smallest useful number: fewer are not to be made, because a gang waits for them."""
    again: bool = False
    """Repeated request: the outcome of the first is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintForDeletion:
    """Taint an empty node with the instant after which it may be deleted."""

    node: str
    delete_after: Instant
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Untaint:
    """Take the deletion taint off a node."""

    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateInstance:
    """Delete a node's instance, and the Node. The actuator checks again that no pod that matters is on it."""

    node: str
    instance: str
    why: str
    lost: bool = False
    """The instance failed to register as a usable node, and is given up."""
    departed: bool = False
    """The instance had a Node, as far as is known, and that Node was deleted."""


PoolIntent = ScaleUp | TaintForDeletion | Untaint | TerminateInstance


# Draining.


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkDeletionCandidate:
    """Put the soft taint on a node, so that pods go elsewhere if they can."""

    node: str
    since: Instant
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanDeletionCandidate:
    """Take the soft taint off a node."""

    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNode:
    """Taint the node, check it again, evict the listed pods and no others, then delete it."""

    node: str
    reason: ScaleDownReason
    evict: tuple[PodMove, ...]
    why: str


DrainIntent = MarkDeletionCandidate | CleanDeletionCandidate | RemoveNode


# Karpenter.


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
    since: Instant
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
    end: SmartPodState
    """End of the request: HandedOver if its pods were bound, Failed if the node was lost, Cancelled if it was over."""
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


# VMs.


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveVm:
    """Write approval, request and unit to a VM pod. `pod` is the pod as it was decided on."""

    pod: VmPod
    approved: VmAmounts
    requested: VmAmounts
    unit: VmAmounts | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartMigration:
    """Note the time on the VirtualMachine, then create the VirtualMachineMigration `name`."""

    vm: Vm
    pod: VmPod
    name: str
    at: Instant
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMigration:
    """Delete a VirtualMachineMigration of ours that is over: its name is free for the next one."""

    migration: VmMigration
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordNodeNeed:
    """Note on a VirtualMachine since when it needs a new node, or that it needs none any more (None)."""

    vm: Vm
    since: Instant | None
    why: str


VmIntent = ApproveVm | StartMigration | DeleteMigration | RecordNodeNeed


# Unions that no module of their own has.

SchedulingIntent = BindPod | BindGang | Preempt | EvictGang | MarkUnschedulable
ClaimIntent = CreateClaimFromTemplate
Intent = SchedulingIntent | ClaimIntent | PoolIntent | DrainIntent | KarpenterIntent | VmIntent
