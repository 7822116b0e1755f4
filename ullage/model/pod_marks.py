"""What draining looks at in a pod, and placement does not."""

from enum import StrEnum

import msgspec

DEFAULT_GRACE = 30.0


class SafeToEvict(StrEnum):
    """What a pod's owner says of moving it."""

    UNSAID = ""
    YES = "true"
    NO = "false"
    ON_COMPLETION = "on-completion"


class PodMarks(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What draining looks at in a pod, and placement does not. Most pods have the same."""

    mirror: bool = False
    """kubelet made it from a file of its node."""
    daemon: bool = False
    """Annotated to be treated as a DaemonSet's."""
    safe_to_evict: SafeToEvict = SafeToEvict.UNSAID
    local_volumes: tuple[str, ...] = ()
    """Volumes whose data would be lost with the node, those left out that it says are safe to lose."""
    restart: str = "Always"
    ready: bool = True
    """False only where a condition says so."""
    deleted_at: float | None = None
    """When it is to be gone, if it is being deleted."""
    grace: float = DEFAULT_GRACE
    owner_group: str = ""
    """The API group of its controller."""


UNMARKED = PodMarks()
