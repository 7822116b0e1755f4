"""Intents of all systems. Frozen; each says why. `decide` chooses them, `act` performs them; nothing else is here.

One module and one union per system, which its actuator matches exhaustively. Import them from here.
"""

from ullage.model.intents.draining import CleanDeletionCandidate, DrainIntent, MarkDeletionCandidate, RemoveNode
from ullage.model.intents.karpenter import (
    AdmitWaitingPod,
    ClearHandover,
    CreateSmartPod,
    DeleteSmartPod,
    GpuLeaseRequest,
    KarpenterIntent,
    MarkNodePool,
    RecordFailure,
    RecordSmartPodState,
    ReserveNode,
)
from ullage.model.intents.pools import PoolIntent, ScaleUp, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.intents.scheduling import (
    BindGang,
    BindPod,
    ClaimIntent,
    CreateClaimFromTemplate,
    EvictGang,
    MarkUnschedulable,
    Preempt,
    SchedulingIntent,
    Victim,
    VolumeAssignment,
)
from ullage.model.intents.vms import ApproveVm, DeleteMigration, RecordNodeNeed, StartMigration, VmIntent

Intent = SchedulingIntent | ClaimIntent | PoolIntent | DrainIntent | KarpenterIntent | VmIntent

__all__ = [
    "AdmitWaitingPod",
    "ApproveVm",
    "BindGang",
    "BindPod",
    "ClaimIntent",
    "CleanDeletionCandidate",
    "ClearHandover",
    "CreateClaimFromTemplate",
    "CreateSmartPod",
    "DeleteMigration",
    "DeleteSmartPod",
    "DrainIntent",
    "EvictGang",
    "GpuLeaseRequest",
    "Intent",
    "KarpenterIntent",
    "MarkDeletionCandidate",
    "MarkNodePool",
    "MarkUnschedulable",
    "PoolIntent",
    "Preempt",
    "RecordFailure",
    "RecordNodeNeed",
    "RecordSmartPodState",
    "RemoveNode",
    "ReserveNode",
    "ScaleUp",
    "SchedulingIntent",
    "StartMigration",
    "TaintForDeletion",
    "TerminateInstance",
    "Untaint",
    "Victim",
    "VmIntent",
    "VolumeAssignment",
]
