"""Statuses of claims and quotas to be written."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.claim import ClaimPhase
from ullage.model.fact_event import ObjectKey
from ullage.model.quota import QuotaUsage

LONGEST_MESSAGE = 4096
"""Largest length of a status message, in characters."""


class ClaimReason(StrEnum):
    """Reason of a claim's phase, where no scheduling failure gives one."""

    BOUND = "Bound"
    RESERVED = "Reserved"
    UNUSED = "Unused"
    """No pod uses the claim."""
    POD_FINISHED = "PodFinished"
    WAITING = "Waiting"
    """Its pod has not been tried by the scheduler yet."""
    OTHER_SCHEDULER = "OtherScheduler"
    """Its pod waits for another scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimStatus:
    """Status of a claim. GPUs are named only while they are held."""

    claim: ObjectKey
    uid: str
    generation: int
    """Generation of the spec the status was derived from."""
    phase: ClaimPhase
    word: str
    """One word: a `ClaimReason`, or the reason of the scheduling failure."""
    message: str
    node: str = ""
    gpu_ids: tuple[int, ...] = ()
    """Devices held. Empty also where a device plugin chooses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaStatus:
    """Status of a quota."""

    quota: ObjectKey
    uid: str
    generation: int
    """Generation of the limits the status was derived from."""
    used: QuotaUsage
    """Usage, with models by the names the quota has for them."""
    exhausted: bool
    """A pod waits because of this quota."""
    message: str = ""
