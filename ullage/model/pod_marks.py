"""Fields of a pod that draining uses and placement does not."""

from enum import StrEnum

import msgspec

from ullage.model.units import Instant, Seconds

DEFAULT_GRACE_PERIOD = Seconds(30.0)


class SafeToEvict(StrEnum):
    """Owner's word on evicting a pod, from its annotation."""

    UNSAID = ""
    YES = "true"
    NO = "false"
    ON_COMPLETION = "on-completion"


class PodDrainInfo(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Fields of a pod that draining uses and placement does not. Most pods have equal ones."""

    mirror: bool = False
    """Static pod: kubelet made it from a file of its node."""
    daemon: bool = False
    """Annotated to be treated as a DaemonSet's pod."""
    safe_to_evict: SafeToEvict = SafeToEvict.UNSAID
    local_volumes: tuple[str, ...] = ()
    """Volumes whose data would be lost with the node, without those the pod declares safe to lose."""
    restart: str = "Always"
    ready: bool = True
    """False only where a condition says so."""
    deleted_at: Instant | None = None
    """Unix second by which it must be gone, if it is being deleted."""
    grace_period: Seconds = DEFAULT_GRACE_PERIOD
    owner_group: str = ""
    """API group of its controller."""


UNMARKED = PodDrainInfo()
