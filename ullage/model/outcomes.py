"""Outcomes of all intents. They return to the cores as values; none is an exception.

An outcome names its intent. Reasons of failures are closed lists: they label metrics.
"""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.claim_status import ClaimStatus, QuotaStatus
from ullage.model.fact_event import ObjectKey
from ullage.model.instance import Instance
from ullage.model.intents import (
    ApproveVm,
    BindGang,
    BindPod,
    CreateClaimFromTemplate,
    DeleteMigration,
    EvictGang,
    KarpenterIntent,
    MarkUnschedulable,
    Preempt,
    RecordNodeNeed,
    RemoveNode,
    ScaleUp,
    StartMigration,
    TaintForDeletion,
    TerminateInstance,
    Untaint,
    Victim,
    VmIntent,
)
from ullage.model.pod import Pod
from ullage.model.provisioner import CloudFailure
from ullage.model.units import Seconds
from ullage.model.vm import VmMigration, VmPod

# Scheduling: conditions of pods that found no place.


class MarkFailure(StrEnum):
    """Reason a scheduling failure was not written on its pod. Closed list: it labels the metric."""

    POD_GONE = "PodGone"
    POD_BOUND = "PodBound"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class PodMarked:
    """The pod's status is as asked for."""

    action: MarkUnschedulable
    written: bool
    """False where it was so already."""


@dataclass(frozen=True, slots=True)
class PodNotMarked:
    """The pod's status was not written."""

    action: MarkUnschedulable
    setback: MarkFailure
    detail: str = ""


RefuseOutcome = PodMarked | PodNotMarked


# Scheduling.


class BindFailure(StrEnum):
    """Reason a placement did not happen. Closed list: it labels the metric."""

    GPU_TAKEN = "GpuTaken"
    POD_CHANGED = "PodChanged"
    POD_GONE = "PodGone"
    FORBIDDEN = "Forbidden"
    """The API server forbids a write: a role is missing, or a webhook does not know the scheduler's user."""
    REFUSED = "Refused"
    API_FAILED = "ApiFailed"
    VOLUME_NOT_READY = "VolumeNotReady"
    """A claim of the pod got no volume on the node."""
    CLAIM_CHANGED = "ClaimChanged"
    """The pod's claim was deleted, or could not be protected against deletion."""
    GANG_FELL_APART = "GangFellApart"
    """Another member of the gang could not get what it needs."""


@dataclass(frozen=True, slots=True)
class PodBound:
    """The pod is bound as asked, and holds its leases."""

    action: BindPod


@dataclass(frozen=True, slots=True)
class PodNotBound:
    """The pod is not bound by this intent, and holds nothing because of it, except where `leaked` says so."""

    action: BindPod
    setback: BindFailure
    detail: str
    device: int | None = None
    """The device that was taken, where `setback` is GPU_TAKEN."""
    leaked: bool = False
    """Leases may be left over: the pod adopts them at its next attempt, or the LeaseGarbageCollector frees them."""
    again_as: str = ""
    """resourceVersion of a pod that still waits and was only written to by another client: worth another attempt."""


PlaceOutcome = PodBound | PodNotBound


@dataclass(frozen=True, slots=True)
class GangBindOutcome:
    """Outcome of each member, in the order of the intent."""

    action: BindGang
    outcomes: tuple[PlaceOutcome, ...]


class EvictionFailure(StrEnum):
    """Reason a pod was not evicted. Closed list: it labels the metric."""

    BUDGET_SPENT = "BudgetSpent"
    """Its disruption budget allows no more for now."""
    REPLACED = "Replaced"
    """Another pod has its name now."""
    FORBIDDEN = "Forbidden"
    API_FAILED = "ApiFailed"


NotEvicted = tuple[tuple[Victim, EvictionFailure], ...]
"""Victims that were not evicted, with the reason."""


@dataclass(frozen=True, slots=True)
class PreemptOutcome:
    """Outcome of a preemption. No pod is evicted where the nomination could not be written."""

    action: Preempt
    evicted: tuple[Victim, ...] = ()
    """Victims that were gone already count as evicted."""
    refused: NotEvicted = ()
    nominated: bool = True
    setback: MarkFailure | None = None
    """Reason the pod was not nominated."""


@dataclass(frozen=True, slots=True)
class EvictGangOutcome:
    """Outcome for each victim. Victims that were gone already count as evicted."""

    action: EvictGang
    evicted: tuple[Victim, ...]
    refused: NotEvicted


# Claims.


class ClaimCreateFailure(StrEnum):
    """Reason a pod has no claim of its own. Closed list: it labels the metric."""

    TEMPLATE_GONE = "TemplateGone"
    NAME_TAKEN = "NameTaken"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class ClaimCreated:
    """The pod has its claim."""

    action: CreateClaimFromTemplate
    written: bool
    """False where the claim existed already."""


@dataclass(frozen=True, slots=True)
class ClaimNotCreated:
    """The pod has no claim of its own."""

    action: CreateClaimFromTemplate
    setback: ClaimCreateFailure
    detail: str = ""


CopyOutcome = ClaimCreated | ClaimNotCreated


# Claims: statuses.


class StatusWriteFailure(StrEnum):
    """Reason a status was not written. Closed list: it labels the metric."""

    CLAIM_GONE = "ClaimGone"
    QUOTA_GONE = "QuotaGone"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class StatusWritten:
    """The status on the API server is as asked for."""

    status: ClaimStatus | QuotaStatus
    written: bool
    """False where the status was so already."""


@dataclass(frozen=True, slots=True)
class StatusNotWritten:
    """The status was not written."""

    status: ClaimStatus | QuotaStatus
    setback: StatusWriteFailure
    detail: str = ""


RecordOutcome = StatusWritten | StatusNotWritten


# Pools of nodes.


class PoolFailure(StrEnum):
    """Reason an intent on a node was not performed. Closed list: it labels the metric."""

    OCCUPIED = "Occupied"
    """A pod that matters came to the node."""
    PROTECTED = "Protected"
    """The node is annotated to be kept."""
    NODE_CHANGED = "NodeChanged"
    """The node is gone, was replaced, or is no longer tainted."""
    NO_INSTANCE = "NoInstance"
    """The provider has no instance for the node."""
    CLOUD_FAILED = "CloudFailed"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class PoolActionDone:
    """The intent was performed."""

    action: TaintForDeletion | Untaint | TerminateInstance


@dataclass(frozen=True, slots=True)
class PoolActionFailed:
    """The intent was not performed, or its result is unknown. The next plan decides again."""

    action: TaintForDeletion | Untaint | TerminateInstance
    setback: PoolFailure
    detail: str
    retry_after: Seconds = Seconds(0.0)
    """Seconds the cloud asked to wait; 0 where it did not say."""


@dataclass(frozen=True, slots=True)
class NodesLaunched:
    """Instances were made: all that were requested, or fewer because of `failure`."""

    action: ScaleUp
    instances: tuple[Instance, ...]
    failure: CloudFailure | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """No instance was made; or, without a failure, the outcome is unknown."""

    action: ScaleUp
    failure: CloudFailure | None
    detail: str
    retry_after: Seconds = Seconds(0.0)


PoolOutcome = PoolActionDone | PoolActionFailed | NodesLaunched | LaunchFailed


# Draining.


class RemovalFailure(StrEnum):
    """Reason a node was not removed. Closed list: it labels the metric, and Events name it."""

    OCCUPIED = "Occupied"
    """A pod arrived that the plan does not list."""
    POD_MUST_STAY = "PodMustStay"
    """A pod must not be moved any more; or a gang's disruption budgets do not suffice for all its members."""
    NO_PLACE = "NoPlaceToMovePods"
    """The place a pod was to go to is taken: evicting the pod would make a new node necessary."""
    BUDGET_SPENT = "NotEnoughPdb"
    """A pod's disruption budget allows no eviction now, and no pod has been evicted: the node is tried again later."""
    PROTECTED = "Protected"
    """The node's owner wants it kept."""
    NODE_CHANGED = "NodeChanged"
    """The node is gone, was replaced, or is no longer tainted."""
    EVICTION_REFUSED = "EvictionRefused"
    PODS_REMAIN = "PodsRemain"
    """Pods were evicted and not gone in time."""
    VM_NOT_MIGRATED = "VmNotMigrated"
    """The migration of a VM failed, was deleted, or was not over in time."""
    NO_INSTANCE = "NoInstance"
    """The provider has no instance for the node any more."""
    CLOUD_FAILED = "CloudFailed"
    API_FAILED = "ApiFailed"


class EvictionResult(StrEnum):
    """Result of evicting a pod. Closed list: it labels the metric."""

    EVICTED = "Evicted"
    REFUSED = "EvictionRefused"
    """Refused until the deadline, or for good."""
    REMAINS = "PodsRemain"
    """The pod was evicted, and was not gone in time."""
    FAILED = "ApiFailed"
    """The API server did not answer until the deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Pod whose eviction was requested."""

    pod: ObjectKey
    uid: str
    node: str
    """Node that is being removed. A member of a gang may have been on another."""
    result: EvictionResult
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PodEvicted:
    """The API server accepted an eviction. The pod may still be terminating."""

    pod: Pod
    """As it was before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRemoved:
    """The node is removed; or it is empty, cordoned and left to its owner."""

    intent: RemoveNode
    uid: str
    instance: str = ""
    left_to_owner: bool = False
    evicted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNotRemoved:
    """The node is not removed, and takes pods again."""

    intent: RemoveNode
    uid: str
    failure: RemovalFailure
    detail: str
    pod: ObjectKey | None = None
    evicted: int = 0

    @property
    def waits_for_budget(self) -> bool:
        """True if nothing was done and the node only waits for a disruption budget: it stays a candidate."""
        return self.failure is RemovalFailure.BUDGET_SPENT


DrainOutcome = NodeRemoved | NodeNotRemoved


# Karpenter.


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


# VMs.


@dataclass(frozen=True, slots=True)
class ApprovalWritten:
    intent: ApproveVm
    pod: VmPod
    """Pod after the write."""


@dataclass(frozen=True, slots=True)
class MigrationStarted:
    intent: StartMigration
    migration: VmMigration


@dataclass(frozen=True, slots=True)
class MigrationDeleted:
    """The migration is gone; another client may have deleted it."""

    intent: DeleteMigration


@dataclass(frozen=True, slots=True)
class NodeNeedRecorded:
    intent: RecordNodeNeed


@dataclass(frozen=True, slots=True)
class VmIntentRefused:
    """Nothing was changed, for certain; of a migration at most the time on the VirtualMachine."""

    intent: VmIntent
    detail: str


@dataclass(frozen=True, slots=True)
class VmIntentUnknown:
    """The outcome is unknown. The object has to be read before the next decision on it."""

    intent: VmIntent
    detail: str


VmOutcome = ApprovalWritten | MigrationStarted | MigrationDeleted | NodeNeedRecorded | VmIntentRefused | VmIntentUnknown


# Unions over systems.

SchedulingOutcome = PlaceOutcome | GangBindOutcome | PreemptOutcome | EvictGangOutcome | RefuseOutcome
Outcome = SchedulingOutcome | CopyOutcome | RecordOutcome | PoolOutcome | DrainOutcome | KarpenterOutcome | VmOutcome
