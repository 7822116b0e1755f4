"""A pod as decisions see it."""

from enum import StrEnum

import msgspec

from ullage.model.event import ObjectKey


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
    """Facts of one pod. `requests` is what the scheduler must find on a node, in thousandths."""

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
    requests: dict[str, int]
    owner: Owner | None
