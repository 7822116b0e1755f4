"""Creation of a pod's own claim from the template it names."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.fact_event import ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateClaimFromTemplate:
    """Create a claim for this pod from this template."""

    pod: ObjectKey
    uid: str
    template: str
    template_uid: str
    generation: int
    """Generation of the template: templates with the same uid and generation are equal."""


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
