"""How a claim or a quota stands at this moment, as its status is to say it."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.claim import ClaimPhase
from ullage.model.event import ObjectKey
from ullage.model.quota import Usage

LONGEST_MESSAGE = 4096
"""Characters a status may carry."""


class ClaimWord(StrEnum):
    """Why a claim is in its phase, where no refusal says it better."""

    BOUND = "Bound"
    RESERVED = "Reserved"
    UNUSED = "Unused"
    """No pod uses it."""
    POD_FINISHED = "PodFinished"
    WAITING = "Waiting"
    """Its pod has not been tried yet."""
    OTHER_SCHEDULER = "OtherScheduler"
    """Its pod waits for a scheduler that is not this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is true of a claim. GPUs are named only while they are held."""

    claim: ObjectKey
    uid: str
    generation: int
    """Of the spec this was judged by."""
    phase: ClaimPhase
    word: str
    """One word: a `ClaimWord`, or the reason it was refused for."""
    message: str
    node: str = ""
    gpu_ids: tuple[int, ...] = ()
    """Empty also where a device plugin chooses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaStanding:
    """What is true of a quota."""

    quota: ObjectKey
    uid: str
    generation: int
    """Of the limits this was judged by."""
    used: Usage
    """Models by the names the quota has for them."""
    exhausted: bool
    """Somebody waits because of it."""
    message: str = ""


class NotRecorded(StrEnum):
    """Why a standing was not written. The closed list: it labels the metric."""

    CLAIM_GONE = "ClaimGone"
    QUOTA_GONE = "QuotaGone"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The status says so now."""

    standing: Standing | QuotaStanding
    written: bool
    """False where it said so already."""


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """The status does not say so."""

    standing: Standing | QuotaStanding
    setback: NotRecorded
    detail: str = ""


RecordOutcome = Recorded | Unrecorded
