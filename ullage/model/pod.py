"""A pod as decisions see it."""

from enum import StrEnum

import msgspec

from ullage.model.device import MILLI_GPU
from ullage.model.event import ObjectKey
from ullage.model.pod_marks import UNMARKED, PodMarks
from ullage.model.shape import Shape


class Phase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def over(self) -> bool:
        """It holds nothing any more."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


class Owner(msgspec.Struct, frozen=True, gc=False):
    """The controller that would make the pod again."""

    kind: str
    name: str
    uid: str


class Pod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one pod. What placement looks at is in its `shape`, which many pods share."""

    key: ObjectKey
    uid: str
    created: float
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
    """The GPUs of its node that are its own, as its allocation says."""
    gpu_share: int = MILLI_GPU
    """How much of each, in thousandths."""
    gpu_instances: tuple[str, ...] = ()
    """UUIDs of the MIG instances that are its own."""
    claim: str = ""
    """The GpuClaim of its namespace it names."""
    claim_template: str = ""
    """The GpuClaim of its namespace it asks for a copy of."""
    device_claims: tuple[str, ...] = ()
    """ResourceClaims of its own (Kubernetes' device allocation), by the names it gives them."""
    nominated: str = ""
    """The node that is being made free for it."""
    unplaced: str = ""
    """Why it has no node, by its own scheduler: the reason of its condition PodScheduled where that is False."""
    preempts: bool = True
    """Whether others of lower priority may be evicted for it."""
    marks: PodMarks = UNMARKED
    """What draining looks at."""
    resource_version: str = ""
    """The state of the pod these facts were read from: what is decided on them holds only for it."""

    @property
    def requests(self) -> dict[str, int]:
        """What the scheduler must find on a node, in thousandths."""
        return dict(self.shape.requests)

    @property
    def holds_room(self) -> bool:
        """It counts on its node until it is over; one that is being deleted still does."""
        return bool(self.node) and not self.phase.over
