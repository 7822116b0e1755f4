"""Release decision for one hold of one GPU Lease, from facts alone.

The hold of a live bound pod is always kept, also when its node is gone: pods on a node that comes back still run. The
hold of a gone, replaced or finished pod is released, unless the node's agent lately saw a process of that pod on the
GPU: then the pod was deleted by force and the GPU is in quarantine. The hold of a pending pod may belong to a bind
under way. It is released only behind a fence: a write to the pod after which that bind must fail.

The fence is safe because the scheduler writes the Lease *after* it reads the pod it binds. A bind decided before the
fence fails on the pod's resourceVersion. A bind decided after the fence has changed the Lease's resourceVersion.
"""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.device import Inventory
from ullage.model.lease import GpuLease, HolderPod, LeaseHold
from ullage.model.units import Instant, Seconds, after


class ReleaseReason(StrEnum):
    """Reason to release a hold. Closed list: it labels the metric."""

    POD_GONE = "PodGone"
    POD_REPLACED = "PodReplaced"
    POD_FINISHED = "PodFinished"
    NOT_ALLOCATED = "NotAllocated"
    """The pod is bound to other GPUs or to none."""
    NODE_GONE = "NodeGone"
    NOBODY_HOLDS = "NobodyHolds"
    """The Lease is for parts of a GPU and has no holder: it only keeps other pods off the GPU."""
    ABANDONED = "Abandoned"
    """The pod is pending, and the Lease was not renewed for `LeaseGcPolicy.abandoned_after`."""


class KeepReason(StrEnum):
    """Reason to keep a hold."""

    POD_IS_BOUND = "PodIsBound"
    POD_IS_PENDING = "PodIsPending"
    ALLOCATION_UNREADABLE = "AllocationUnreadable"
    STILL_IN_USE = "StillInUse"
    """The pod is gone, and the agent still saw a process of it on the GPU."""
    NOT_LOOKED_AT = "NotLookedAt"
    """Unknown: the object could not be read, or has just changed."""


@dataclass(frozen=True, slots=True)
class KeepHold:
    why: KeepReason
    again_at: Instant | None = None
    """Instant of the next judgement without an event; None if only an event can change the answer."""


@dataclass(frozen=True, slots=True)
class ReleaseHold:
    why: ReleaseReason


@dataclass(frozen=True, slots=True)
class FenceThenRelease:
    """Write the fence to the pod first; `judge_fenced` then decides on the pod as written."""

    why: ReleaseReason


Judgement = KeepHold | ReleaseHold | FenceThenRelease


@dataclass(frozen=True, slots=True)
class LeaseGcPolicy:
    """Time limits of the LeaseGarbageCollector, in seconds."""

    abandoned_after: Seconds = Seconds(60.0)
    """Age of a pending pod's Lease at which it is abandoned. A gang that waits longer renews its Leases in time."""
    report_counts_for: Seconds = Seconds(90.0)
    """Age up to which an agent's report of processes counts."""


@dataclass(frozen=True, slots=True)
class LeaseNodeFacts:
    """Facts of the node a hold is on."""

    node_exists: bool
    inventory: Inventory | None = None


def decide_hold(
    lease: GpuLease,
    hold: LeaseHold,
    pod: HolderPod | None,
    node_facts: LeaseNodeFacts,
    *,
    now: Instant,
    policy: LeaseGcPolicy = LeaseGcPolicy(),  # noqa: B008 - frozen
) -> Judgement:
    """Judge one hold. `pod` is the pod that has the holder's name now. `lease.renewed` may not lie after `now`."""
    ended = _ended(lease, hold, pod)
    if ended is not None:
        until = _quarantined_until(lease, hold, node_facts, policy)
        return ReleaseHold(ended) if until is None or now >= until else KeepHold(KeepReason.STILL_IN_USE, until)
    if pod is not None and pod.node:
        return KeepHold(KeepReason.POD_IS_BOUND if pod.devices is not None else KeepReason.ALLOCATION_UNREADABLE)
    if not node_facts.node_exists:
        return FenceThenRelease(ReleaseReason.NODE_GONE)
    abandoned_at = lease.renewed + policy.abandoned_after
    return (
        FenceThenRelease(ReleaseReason.ABANDONED)
        if now >= abandoned_at
        else KeepHold(KeepReason.POD_IS_PENDING, Instant(abandoned_at))
    )


def decide_fenced(
    lease: GpuLease,
    hold: LeaseHold,
    pod: HolderPod | None,
    node_facts: LeaseNodeFacts,
    *,
    now: Instant,
    policy: LeaseGcPolicy = LeaseGcPolicy(),  # noqa: B008 - frozen
) -> KeepHold | ReleaseHold:
    """Judge one hold on the pod as the fence found it: a pod still pending cannot be bound to this GPU any more."""
    found = decide_hold(lease, hold, pod, node_facts, now=now, policy=policy)
    return ReleaseHold(found.why) if isinstance(found, FenceThenRelease) else found


def _ended(lease: GpuLease, hold: LeaseHold, pod: HolderPod | None) -> ReleaseReason | None:
    """Reason the hold has ended for good; None if it has not. None of these reasons can be undone."""
    if pod is None:
        return ReleaseReason.POD_GONE
    if pod.uid != hold.uid:
        return ReleaseReason.POD_REPLACED
    if pod.over:
        return ReleaseReason.POD_FINISHED
    if not pod.node or pod.devices is None:
        return None
    given = pod.node == lease.node and pod.was_given(lease.device, hold.instance)
    return None if given else ReleaseReason.NOT_ALLOCATED


def _quarantined_until(
    lease: GpuLease, hold: LeaseHold, node_facts: LeaseNodeFacts, policy: LeaseGcPolicy
) -> Instant | None:
    """End of the quarantine by a process seen on the GPU, unless a later report ends it; None without quarantine."""
    if node_facts.inventory is None or not node_facts.node_exists:
        return None
    seen = any(device.id == lease.device and hold.uid in device.in_use_by for device in node_facts.inventory.devices)
    return after(node_facts.inventory.reported_at, policy.report_counts_for) if seen else None
