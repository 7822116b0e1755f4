"""Outcomes of intents on claims and of writes of statuses."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.claim_status import ClaimStatus, QuotaStatus
from ullage.model.intents import CreateClaimFromTemplate


class ClaimCreateFailure(StrEnum):
    """Reason a pod has no claim of its own. Closed list: it labels the metric."""

    TEMPLATE_GONE = "TemplateGone"
    NAME_TAKEN = "NameTaken"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class ClaimCreated:
    """The pod has its claim."""

    action: CreateClaimFromTemplate
    written: bool
    """False where the claim existed already."""


@dataclass(frozen=True, slots=True)
class ClaimNotCreated:
    """The pod has no claim of its own."""

    action: CreateClaimFromTemplate
    setback: ClaimCreateFailure
    detail: str = ""


CopyOutcome = ClaimCreated | ClaimNotCreated


class StatusWriteFailure(StrEnum):
    """Reason a status was not written. Closed list: it labels the metric."""

    CLAIM_GONE = "ClaimGone"
    QUOTA_GONE = "QuotaGone"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class StatusWritten:
    """The status on the API server is as asked for."""

    status: ClaimStatus | QuotaStatus
    written: bool
    """False where the status was so already."""


@dataclass(frozen=True, slots=True)
class StatusNotWritten:
    """The status was not written."""

    status: ClaimStatus | QuotaStatus
    setback: StatusWriteFailure
    detail: str = ""


RecordOutcome = StatusWritten | StatusNotWritten
