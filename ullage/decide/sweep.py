"""Whether a hold on a GPU has outlived its reason: one holder of one Lease, judged by facts.

A live bound pod's hold is always kept, also when its node is gone: pods on a node that comes back are still running.
What is dead is freed, unless a process of it was seen on the GPU a moment ago: then a pod was deleted by force and the
GPU is in quarantine. What a pending pod holds may belong to a bind still on its way, and is freed only behind a fence:
a write to the pod after which that bind must fail.

The fence is safe because whoever binds has written the Lease *after* reading the pod it binds: a bind decided before
the fence fails on the pod's resourceVersion, and one decided after it has changed the Lease's.
"""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.device import Inventory
from ullage.model.lease import GpuLease, Hold, HolderPod


class Freeing(StrEnum):
    """Why a hold is over. The closed list: it labels the metric."""

    POD_GONE = "PodGone"
    POD_REPLACED = "PodReplaced"
    POD_FINISHED = "PodFinished"
    NOT_ALLOCATED = "NotAllocated"
    """Its pod is bound, and to other GPUs or to none."""
    NODE_GONE = "NodeGone"
    ABANDONED = "Abandoned"
    """Its pod is pending, and nobody has written the Lease for long."""


class Keeping(StrEnum):
    """Why a hold stays."""

    POD_IS_BOUND = "PodIsBound"
    POD_IS_PENDING = "PodIsPending"
    ALLOCATION_UNREADABLE = "AllocationUnreadable"
    STILL_IN_USE = "StillInUse"
    """Its pod is gone, and a process of it was still seen on the GPU."""
    NOT_LOOKED_AT = "NotLookedAt"
    """Nobody knows: it could not be read, or has just changed."""


@dataclass(frozen=True, slots=True)
class Keep:
    why: Keeping
    again_at: float | None = None
    """When to look again without news; None where only news can change it."""


@dataclass(frozen=True, slots=True)
class Free:
    why: Freeing


@dataclass(frozen=True, slots=True)
class FenceThenFree:
    """Write to the pod first; what it says then decides."""

    why: Freeing


Judgement = Keep | Free | FenceThenFree


@dataclass(frozen=True, slots=True)
class SweepPolicy:
    """Seconds."""

    abandoned_after: float = 60.0
    """A placement takes a moment; a gang that waits longer writes its Leases again in time."""
    report_counts_for: float = 90.0
    """An older report of a node's agent says nothing about now."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The node a hold is on."""

    node_exists: bool
    inventory: Inventory | None = None


def judge(
    lease: GpuLease,
    hold: Hold,
    pod: HolderPod | None,
    ground: Ground,
    *,
    now: float,
    policy: SweepPolicy = SweepPolicy(),  # noqa: B008 - frozen
) -> Judgement:
    """`pod` is whatever has the holder's name now. `lease.renewed` may not lie after `now`."""
    ended = _ended(lease, hold, pod)
    if ended is not None:
        until = _quarantined_until(lease, hold, ground, policy)
        return Free(ended) if until is None or now >= until else Keep(Keeping.STILL_IN_USE, until)
    if pod is not None and pod.node:
        return Keep(Keeping.POD_IS_BOUND if pod.devices is not None else Keeping.ALLOCATION_UNREADABLE)
    if not ground.node_exists:
        return FenceThenFree(Freeing.NODE_GONE)
    abandoned_at = lease.renewed + policy.abandoned_after
    return FenceThenFree(Freeing.ABANDONED) if now >= abandoned_at else Keep(Keeping.POD_IS_PENDING, abandoned_at)


def judge_fenced(
    lease: GpuLease,
    hold: Hold,
    pod: HolderPod | None,
    ground: Ground,
    *,
    now: float,
    policy: SweepPolicy = SweepPolicy(),  # noqa: B008 - frozen
) -> Keep | Free:
    """The same, of a pod as the fence found it: one that is still pending cannot be bound to this GPU any more."""
    found = judge(lease, hold, pod, ground, now=now, policy=policy)
    return Free(found.why) if isinstance(found, FenceThenFree) else found


def _ended(lease: GpuLease, hold: Hold, pod: HolderPod | None) -> Freeing | None:
    """Why the hold is over for good: none of this can be undone."""
    if pod is None:
        return Freeing.POD_GONE
    if pod.uid != hold.uid:
        return Freeing.POD_REPLACED
    if pod.over:
        return Freeing.POD_FINISHED
    if not pod.node or pod.devices is None:
        return None
    given = pod.node == lease.node and lease.device in pod.devices
    return None if given else Freeing.NOT_ALLOCATED


def _quarantined_until(lease: GpuLease, hold: Hold, ground: Ground, policy: SweepPolicy) -> float | None:
    """Until when a process seen on the GPU keeps it from others, if no later report says otherwise."""
    if ground.inventory is None or not ground.node_exists:
        return None
    seen = any(device.id == lease.device and hold.uid in device.in_use_by for device in ground.inventory.devices)
    return ground.inventory.reported_at + policy.report_counts_for if seen else None
