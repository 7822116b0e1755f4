"""A pod as decisions see it."""

from enum import StrEnum
from typing import NamedTuple

import msgspec


class PodKey(NamedTuple):
    """Where a pod is found. Orders by namespace, then name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


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

    key: PodKey
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
