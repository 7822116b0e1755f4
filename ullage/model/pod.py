"""Pod as decisions see it."""

from enum import StrEnum

import msgspec

from ullage.model.device import MILLI_GPU
from ullage.model.fact_event import ObjectKey
from ullage.model.pod_marks import UNMARKED, PodDrainInfo
from ullage.model.shape import Shape
from ullage.model.units import Instant, Milli
from ullage.model.vm import VmMarks


class Phase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def over(self) -> bool:
        """The pod holds nothing any more."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


class Owner(msgspec.Struct, frozen=True, gc=False):
    """Controller that would recreate the pod."""

    kind: str
    name: str
    uid: str


class Pod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one pod. The fields placement uses are in its `shape`, which many pods share."""

    key: ObjectKey
    uid: str
    created: Instant
    node: str
    phase: Phase
    deleting: bool
    gated: bool
    scheduler: str
    priority: int
    labels: dict[str, str]
    shape: Shape
    owner: Owner | None
    gpu_ids: tuple[int, ...] = ()
    """GPUs of its node that it holds, by its allocation."""
    gpu_share: Milli = MILLI_GPU
    """Thousandths of each of these GPUs."""
    gpu_instances: tuple[str, ...] = ()
    """UUIDs of the MIG instances it holds."""
    claim: str = ""
    """GpuClaim of its namespace it names."""
    claim_template: str = ""
    """GpuClaim of its namespace it asks for a copy of."""
    claim_unnamed: str = ""
    """Annotation that should name one of these, and is empty."""
    device_claims: tuple[str, ...] = ()
    """ResourceClaims of the pod (Dynamic Resource Allocation), by the names it gives them."""
    nominated: str = ""
    """Node that is being made free for it."""
    unplaced: str = ""
    """Reason of its condition PodScheduled where that is False. Its own scheduler writes it."""
    bind_error: str = ""
    """Message of its scheduler about a failed placement, where that is the reason it has no node."""
    preempts: bool = True
    """True if pods of lower priority may be evicted for it."""
    marks: PodDrainInfo = UNMARKED
    """Fields draining uses."""
    capacity_failure: str = ""
    """Last failure of its capacity request, from its annotation (`model.karpenter`)."""
    vm: VmMarks | None = None
    """Set if the pod runs a VM."""
    resource_version: str = ""
    """Version of the pod these facts were read from. Decisions on them hold only for this version."""

    @property
    def requests(self) -> dict[str, int]:
        """Requests a node must have room for, in thousandths."""
        return dict(self.shape.requests)

    @property
    def holds_room(self) -> bool:
        """True if it takes up room on its node: until it is over. A pod that is being deleted still does."""
        return bool(self.node) and not self.phase.over


AgeOrder = tuple[bool, Instant, ObjectKey]


def age_order(pod: Pod) -> AgeOrder:
    """Sort key, oldest first. A pod without a creation time has not been created yet and comes last."""
    return not pod.created, pod.created, pod.key
